"""One stream to a control plane: register, welcome, heartbeats, changes, commands, renewal.

What was last sent is kept here, per stream and not per agent: a new stream begins with everything.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.log import get
from llmgw.model.commands import Command, LogLines
from llmgw.model.link import (
    AgentControl,
    AgentMessage,
    CertificateIssued,
    CertificateRequest,
    Goodbye,
    Welcome,
)
from llmgw.model.node import Heartbeat, Inventory, Register, WeightsHeld
from llmgw.model.shard import ShardStatus
from llmgw_agent.commands import Commands
from llmgw_agent.host.patience import done_within
from llmgw_agent.logs import Follower, Logs
from llmgw_agent.outgoing import Outgoing
from llmgw_agent.uplink import Uplink

log = get(__name__)

CHANGE_GAP = 1.0
"""Seconds between two looks at what changed, when changes come one after the other."""

COMMANDS_AT_ONCE = 256
"""Commands under way on one stream before further ones wait their turn."""

_IN_HEARTBEATS = frozenset({"filesystems", "weights"})
"""Parts of the inventory that heartbeats carry."""


@contextmanager
def _logged() -> Iterator[None]:
    """Log why a message could not be sent."""
    try:
        yield
    except LlmgwError as error:
        log.warning("message not sent", why=error.message)


class UpStream(Protocol):
    """The agent's side of a stream; `llmgw.link.stream.Stream` is one."""

    def __aiter__(self) -> AsyncIterator[AgentControl]:
        """Iterate over what the control plane says."""
        ...

    def send(self, record: AgentMessage) -> None:
        """Queue a record; never blocks."""
        ...

    def expect_every(self, seconds: float) -> None:
        """Take the control plane for dead when it misses three of these intervals."""
        ...


class Told(Protocol):
    """What an agent has to tell, and what it takes from a welcome; asking waits for nothing."""

    def register(self) -> Register:
        """Return everything there is to know now, shards apart."""
        ...

    def inventory(self) -> Inventory:
        """Return what the node has now."""
        ...

    def heartbeat(self) -> Heartbeat:
        """Return what changes, without the list of weights."""
        ...

    def weights(self) -> tuple[WeightsHeld, ...] | None:
        """Return the weights held; None: not looked yet."""
        ...

    def running(self) -> tuple[ShardStatus, ...]:
        """Return the shards that run, with whole specs."""
        ...

    def welcomed(self, welcome: Welcome) -> None:
        """Take term, settings and addresses."""
        ...

    def goodbye(self, goodbye: Goodbye) -> None:
        """Note why the control plane closes, and who leads."""
        ...

    def interval(self) -> float:
        """Return the seconds between two heartbeats."""
        ...


class Renewing(Protocol):
    """The certificate of this node."""

    async def due(self) -> None:
        """Return when it should be renewed."""
        ...

    async def pause(self) -> None:
        """Return when a request that was not answered should be made again."""
        ...

    def request(self) -> CertificateRequest:
        """Return a request for the next one."""
        ...

    def take(self, issued: CertificateIssued) -> None:
        """Keep the next one."""
        ...


class Session:
    """One stream, from its register to its end.

    Args:
        stream: the stream.
        told: what there is to tell.
        uplink: where shard statuses come from.
        commands: answers commands.
        logs: followed for the control plane.
        clock: the time.
        renewal: None for an agent without a certificate.
        changed: set whenever something of the inventory changed.
    """

    def __init__(
        self,
        stream: UpStream,
        told: Told,
        uplink: Uplink,
        commands: Commands,
        logs: Logs,
        clock: Clock,
        *,
        renewal: Renewing | None,
        changed: asyncio.Event,
    ) -> None:
        self._stream = stream
        self._told = told
        self._uplink = uplink
        self._commands = commands
        self._logs = logs
        self._clock = clock
        self._renewal = renewal
        self._changed = changed
        self._outgoing = Outgoing(stream.send)
        self._sent = Inventory()
        self._weights_sent: str | None = None
        self._interval: float | None = None
        self._turns = asyncio.Semaphore(COMMANDS_AT_ONCE)
        self._followed: dict[str, tuple[Callable[[], object], Callable[[], None]]] = {}
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> float | None:
        """Serve the stream to its end; return the seconds that a goodbye asks to wait.

        Raises:
            LlmgwError: what ended the stream.
        """
        error: LlmgwError | None = None
        wait: float | None = None
        try:
            async with self._group:
                try:
                    wait = await self._converse()
                except LlmgwError as failure:
                    # Kept until the tasks are ended: a group would wrap it.
                    error = failure
                for task in tuple(self._tasks):
                    task.cancel()
        finally:
            self._uplink.close()
            for _, stop in self._followed.values():
                stop()
        if error is not None:
            raise error
        return wait

    async def _converse(self) -> float | None:
        self._register()
        async for control in self._stream:
            match control:
                case AgentControl(welcome=welcome) if welcome is not None:
                    self._welcome(welcome)
                case AgentControl(command=command) if command is not None:
                    await self._turns.acquire()
                    self._spawn(self._command(command))
                case AgentControl(certificate=issued) if issued is not None:
                    if self._renewal is not None:
                        self._renewal.take(issued)
                case AgentControl(goodbye=goodbye) if goodbye is not None:
                    self._told.goodbye(goodbye)
                    return goodbye.reconnect_after
                case AgentControl(notice=notice) if notice is not None:
                    log.warning("the control plane says", words=notice.words)
                case _:
                    pass  # A ping, which the link answers, or what this version does not know.
        return None

    def _spawn(self, work: Coroutine[object, object, None]) -> Callable[[], object]:
        """Run something until it ends, or the stream does, or the returned function is called."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    def _register(self) -> None:
        shards = self._uplink.registering(self._told.running())
        register = msgspec.structs.replace(self._told.register(), shards=shards)
        self._sent = register.inventory or Inventory()
        self._outgoing.register(register)
        self._uplink.open(lambda status: self._send(AgentMessage(shard=status)))

    def _welcome(self, welcome: Welcome) -> None:
        self._told.welcomed(welcome)
        self._uplink.welcomed()
        self._expect()
        log.info(
            "welcomed",
            control_plane=welcome.server,
            version=welcome.server_version,
            term=welcome.term,
        )
        self._spawn(self._beat_for_ever())
        if self._renewal is not None:
            self._spawn(self._renew_for_ever(self._renewal))

    # Going up.

    def _send(self, message: AgentMessage) -> None:
        """Send something that must not cost the stream when it can't be encoded."""
        with _logged():
            self._stream.send(message)

    async def _beat_for_ever(self) -> None:
        while True:
            began = self._clock.monotonic()
            self._changed.clear()
            self._expect()
            self._beat()
            self._send_changes()
            while (left := began + self._told.interval() - self._clock.monotonic()) > 0:
                if not await self._changed_within(left):
                    continue
                self._changed.clear()
                self._expect()
                self._send_changes()
                await self._clock.sleep(min(CHANGE_GAP, left))

    def _expect(self) -> None:
        """Expect the control plane as often as it hears from here: it answers each heartbeat."""
        if self._interval != self._told.interval():
            self._interval = self._told.interval()
            self._stream.expect_every(self._interval)

    def _beat(self) -> None:
        heartbeat = self._told.heartbeat()
        held = self._told.weights()
        if held is not None and heartbeat.weights_print != self._weights_sent:
            self._weights_sent = heartbeat.weights_print
            heartbeat = msgspec.structs.replace(heartbeat, weights=held)
        with _logged():
            self._outgoing.heartbeat(heartbeat)

    def _send_changes(self) -> None:
        """Send what the node has that differs from what was sent; nothing else is said."""
        now = self._told.inventory()
        changed = {
            name: value
            for name in Inventory.__struct_fields__
            if name not in _IN_HEARTBEATS
            and (value := getattr(now, name)) is not None
            and value != getattr(self._sent, name)
        }
        if changed:
            self._sent = msgspec.structs.replace(self._sent, **changed)
            with _logged():
                self._outgoing.inventory(Inventory(**changed))

    async def _changed_within(self, seconds: float) -> bool:
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            return await done_within(self._clock, waiting, seconds)
        finally:
            waiting.cancel()

    async def _renew_for_ever(self, renewal: Renewing) -> None:
        while True:
            await renewal.due()
            self._send(AgentMessage(certificate_request=renewal.request()))
            await renewal.pause()

    # Coming down.

    async def _command(self, command: Command) -> None:
        try:
            reply = await self._commands.answer(command, self)
            self._send(AgentMessage(reply=reply))
        finally:
            self._turns.release()

    def follow(self, request: str, source: str | None) -> None:
        """Send later lines of a log under a request's id."""
        follower = Follower(request, self._send_lines, self._clock)
        stop = self._logs.follow(source, follower.take)
        self.unfollow(request)
        self._followed[request] = (self._spawn(follower.run()), stop)

    def unfollow(self, request: str) -> bool:
        """End that; False when nothing follows under that id."""
        followed = self._followed.pop(request, None)
        if followed is None:
            return False
        cancel, stop = followed
        stop()
        cancel()
        return True

    def _send_lines(self, lines: LogLines) -> None:
        self._send(AgentMessage(log_lines=lines))
