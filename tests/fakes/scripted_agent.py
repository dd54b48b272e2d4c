"""A scripted agent: it says what a test tells it to, and answers commands as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.control.peer import PeerStream
from llmgw.model.commands import (
    HELD,
    Accepted,
    ApplySettings,
    CancelRequest,
    Command,
    Declined,
    FetchWeights,
    LogLines,
    LogsRead,
    ReadLogs,
    Reply,
    StartShard,
    StopShard,
    WeightsState,
)
from llmgw.model.device import Device
from llmgw.model.link import AgentControl, AgentMessage, Welcome
from llmgw.model.node import (
    INSTALLED,
    Heartbeat,
    Host,
    InstalledEngine,
    Inventory,
    Register,
)
from llmgw.model.shard import FAILED, READY, STARTING, STOPPED, ShardSpec, ShardStatus
from tests.fakes.clock import settle
from tests.fakes.peer import MemoryStream, identity

GB = 10**9
FEATURES = ("shards", "settings", "logs")
FETCHES = (*FEATURES, "fetch")
"""The features of an agent that fetches weights on request."""
VERSION = "0.1.0"


class AgentSide(Protocol):
    """A stream as an agent has it: `llmgw.link.dial` hands out such."""

    def send(self, record: AgentMessage) -> None: ...

    def __aiter__(self) -> AsyncIterator[AgentControl]: ...


class Accepts(Protocol):
    """What takes an agent's stream: a plane's `agents`."""

    async def on_agent(self, stream: PeerStream[AgentMessage, AgentControl]) -> None: ...


class FakeAgent:
    """One node's agent. Its shards live in `shards` and outlive its streams.

    Attributes:
        silent: commands are lost: neither done nor answered.
        mute: commands are done, and nobody hears of it: what is said is lost.
        declines: answered to every command instead of doing it.
        how_far: answers what is asked of weights, where the agent lists `fetch`.
        fails: a started shard fails at once, for this reason.
        loads: a started shard stays in `starting` until `ready` is called.
        commands: every command that came, oldest first.
        welcomes: every welcome; one a stream.
        ended: how the last stream ended: an error, or None for a clean end.
    """

    def __init__(
        self,
        node: str,
        *,
        serial: str | None = None,
        machine: str | None = "boot-1",
        peer: str | None = None,
        devices: int = 0,
        features: tuple[str, ...] | None = FEATURES,
    ) -> None:
        self.node = node
        self.serial = serial or f"5e-{node}"
        self.machine = machine
        self.peer = peer or f"{node}:50001"
        self.features = features
        self.labels = {"zone": "a"}
        self.version: str | None = VERSION
        self.boot: str | None = "agent-1"
        self.highest_term: int | None = None
        self.says_shards = True
        self.inventory = inventory(node, devices)
        self.shards: dict[tuple[str, int], ShardStatus] = {}
        self.commands: list[Command] = []
        self.welcomes: list[Welcome] = []
        self.controls: list[AgentControl] = []
        self.log = ["first line", "second line"]
        self.silent = False
        self.mute = False
        self.declines: Declined | None = None
        self.loads = False
        self.fails: str | None = None
        self.how_far: Callable[[FetchWeights], WeightsState] = lambda _: WeightsState(state=HELD)
        self.ended: LlmgwError | None = None
        self.stream: MemoryStream[AgentMessage, AgentControl] | None = None
        self.task: asyncio.Task[None] | None = None
        self._sequence = 0
        self._say: Callable[[AgentMessage], None] = _nowhere

    # Streams.

    async def connect(self, agents: Accepts) -> MemoryStream[AgentMessage, AgentControl]:
        """Open a stream in memory and register."""
        who = identity("node", self.node, serial=self.serial)
        stream: MemoryStream[AgentMessage, AgentControl] = MemoryStream(who, self.peer)
        stream.on_sent = self.take
        self.stream = stream
        self._say = stream.say
        self.task = asyncio.create_task(self._served(agents, stream))
        self.say(register=self.register())
        await settle()
        return stream

    async def session(self, stream: AgentSide) -> float | None:
        """Serve a real stream, as a dialler's session."""
        self._say = stream.send
        self.say(register=self.register())
        async for control in stream:
            self.take(control)
        return None

    async def sever(self) -> None:
        """Lose the connection."""
        assert self.stream is not None
        self.stream.sever()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the stream has ended on the other side."""
        assert self.task is not None
        await asyncio.wait({self.task}, timeout=5)
        assert self.task.done(), "the control plane still serves the stream"

    async def _served(
        self, agents: Accepts, stream: MemoryStream[AgentMessage, AgentControl]
    ) -> None:
        try:
            await agents.on_agent(stream)
        except LlmgwError as error:
            self.ended = error

    # What it says.

    def register(self) -> Register:
        return Register(
            node=self.node,
            agent_version=self.version,
            boot=self.boot,
            machine=self.machine,
            address="127.0.0.1",
            features=self.features,
            labels=self.labels,
            highest_term=self.highest_term,
            inventory=self.inventory,
            shards=tuple(self.shards.values()) if self.says_shards else None,
        )

    def say(self, **body: msgspec.Struct) -> None:
        if self.mute and "register" not in body and "heartbeat" not in body:
            return
        self._say(AgentMessage(**body))  # type: ignore[arg-type]

    def beat(self, **more: object) -> None:
        """Send a heartbeat."""
        self._sequence += 1
        beat = Heartbeat(sequence=self._sequence, memory_available_bytes=8 * GB)
        self.say(heartbeat=msgspec.structs.replace(beat, **more))

    def runs(self, spec: ShardSpec, state: str = READY, **more: object) -> ShardStatus:
        """Have a shard, without telling."""
        status = ShardStatus(
            replica=spec.replica,
            rank=spec.rank,
            state=state,
            since=1_800_000_000.0,
            pid=4242,
            address="127.0.0.1",
            port=7500,
            spec=spec,
            keyed=True,
        )
        status = msgspec.structs.replace(status, **more)
        self.shards[spec.replica, spec.rank] = status
        return status

    def reports(self, spec: ShardSpec, state: str = READY, **more: object) -> None:
        """Have a shard and tell."""
        self.say(shard=self.runs(spec, state, **more))

    def ready(self) -> None:
        """Let everything that loads be ready."""
        for status in tuple(self.shards.values()):
            if status.state == STARTING and status.spec is not None:
                self.reports(status.spec)

    # What it is told.

    def take(self, control: AgentControl) -> None:
        self.controls.append(control)
        if control.welcome is not None:
            self.welcomes.append(control.welcome)
        if control.command is not None:
            self.commands.append(control.command)
            if not self.silent:
                self._answer(control.command)

    def _answer(self, command: Command) -> None:
        if self.declines is not None:
            self.say(reply=Reply(id=command.id, answer=self.declines))
            return
        match command.request:
            case ReadLogs(lines=lines):
                read = LogsRead(lines=tuple(self.log[-lines:]), sources=("agent",))
                self.say(reply=Reply(id=command.id, answer=read))
            case StartShard(spec=spec):
                self.say(reply=Reply(id=command.id, answer=Accepted()))
                if self.fails is not None:
                    status = ShardStatus(
                        replica=spec.replica,
                        rank=spec.rank,
                        state=FAILED,
                        spec=spec,
                        reason=self.fails,
                    )
                    self.say(shard=status)
                else:
                    self.reports(spec, STARTING if self.loads else READY)
            case FetchWeights() as request:
                self.say(reply=Reply(id=command.id, answer=self.how_far(request)))
            case StopShard(replica=replica, rank=rank):
                self.say(reply=Reply(id=command.id, answer=Accepted()))
                self.shards.pop((replica, rank), None)
                self.say(shard=ShardStatus(replica=replica, rank=rank, state=STOPPED))
            case ApplySettings() | CancelRequest() | None:
                self.say(reply=Reply(id=command.id, answer=Accepted()))
            case _:
                self.say(reply=Reply(id=command.id, answer=Declined(words="what is that?")))

    def follows(self, line: str, *, dropped: int = 0) -> None:
        """Send a further line to whoever follows the log."""
        request = next(
            command.id
            for command in reversed(self.commands)
            if isinstance(command.request, ReadLogs) and command.request.follow
        )
        self.say(log_lines=LogLines(request=request, lines=(line,), dropped=dropped))

    def requests(self, kind: type[msgspec.Struct]) -> list[object]:
        """Return the requests of one kind that came."""
        return [one.request for one in self.commands if isinstance(one.request, kind)]


def inventory(node: str, devices: int = 0) -> Inventory:
    """Return what a plain machine has."""
    return Inventory(
        host=Host(hostname=node, cpus=8, memory_bytes=16 * GB),
        devices=tuple(device(node, number) for number in range(devices)),
        engines=(InstalledEngine(engine="llamacpp", version="0.10434.0", state=INSTALLED),),
        engines_probed=True,
        can_install=("llamacpp",),
    )


def device(node: str, number: int) -> Device:
    """Return one GPU of a node."""
    return Device(
        uuid=f"GPU-{node}-{number}",
        kind="gpu",
        number=number,
        name="H100",
        device_class="h100-80g",
        memory_bytes=80 * GB,
        unhealthy=(),
    )


def _nowhere(message: AgentMessage) -> None:
    raise AssertionError(f"no stream is open for {message}")
