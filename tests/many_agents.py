"""Many agents in one process, against one control plane.

    python -m tests.many_agents --count 200 --link HOST:PORT --tokens FILE

Every agent is a real one but for its machine (see `tests.fakes.recorded_agent`): it joins with a
one-time token of its own, or gets its certificate from the CA of a control plane on this machine,
and keeps a stream open. The program tells how many are welcome, in how many seconds, what they were
told to do, and what it and the control plane have used; it ends on SIGTERM and SIGINT.
"""

import argparse
import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec
import uvloop

from llmgw.base import log
from llmgw.base.clock import SystemClock
from llmgw.base.errors import Usage
from llmgw.link.enrol import Own, TokenText, join, own_certificate
from llmgw.link.identity import NODE
from llmgw.link.tls import files_in
from llmgw.pki.authority import Authority
from tests.fakes.recorded_agent import RecordedAgent
from tests.fakes.recorded_fleet import Recording, fleet
from tests.spent import Spent, spent

JOIN_AT_ONCE = 8
CERTIFIED_FOR = 86_400.0
"""Seconds that a certificate from the CA's own files is good for."""
_LOOK = 0.1
_OPEN_FILES = 65_536

GetCertificate = Callable[[str, Path], Awaitable[Own]]
"""Puts a node's certificate into a directory."""


class After(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds after which agents were welcome: since the start, or since the first one was not."""

    first: float
    half: float
    last: float


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One line of what the program prints."""

    at: float
    """Seconds since the start."""
    agents: int
    joined: int
    welcome: int
    """Agents with an open stream on which they were welcomed."""
    opened: int
    """Streams since the start."""
    starts: int
    stops: int
    shards: dict[str, int]
    own: Spent | None
    server: Spent | None
    after: After | None = None
    """Set when all have just become welcome."""


class Crowd:
    """The agents of this process.

    Args:
        control_plane: where they dial.
        directory: gets their certificates.
        certificate: gets one.
        server: the control plane's pid, to tell what it uses; None: it is not told.
    """

    def __init__(
        self, control_plane: str, directory: Path, certificate: GetCertificate, server: int | None
    ) -> None:
        self._control_plane = control_plane
        self._directory = directory
        self._certificate = certificate
        self._server = server
        self._clock = SystemClock()
        self._turns = asyncio.Semaphore(JOIN_AT_ONCE)
        self._agents: dict[str, RecordedAgent] = {}
        self._welcome: dict[str, float] = {}
        self._since = self._began = time.monotonic()
        self._ending = asyncio.Event()

    async def run(self, recordings: Iterable[Recording], tell: Callable[[Told], None]) -> None:
        """Run all agents until `end`; tell each change."""
        recorded = tuple(recordings)
        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(self._live(one), name=one.node) for one in recorded]
            await self._watch(len(recorded), tell)
            for agent in self._agents.values():
                agent.dialer.stop()
            for life in lives:
                if life.get_name() not in self._agents:
                    life.cancel()  # it waits for its certificate

    def end(self) -> None:
        """Ask all agents to leave."""
        self._ending.set()

    async def _live(self, recording: Recording) -> None:
        node = recording.node
        async with self._turns:
            own = await self._certificate(node, self._directory / node)
        agent = RecordedAgent(
            recording,
            own,
            self._control_plane,
            clock=self._clock,
            rng=random.Random(),
            on_welcome=lambda: self._welcome.__setitem__(node, time.monotonic()),
        )
        self._agents[node] = agent
        await agent.core.run()

    async def _watch(self, count: int, tell: Callable[[Told], None]) -> None:
        before: Told | None = None
        complete = False
        while not self._ending.is_set():
            for node, agent in self._agents.items():
                if agent.dialer.address is None:
                    self._welcome.pop(node, None)
            after = None
            if complete and len(self._welcome) < count:
                complete, self._since = False, time.monotonic()
            elif not complete and len(self._welcome) == count:
                complete, after = True, self._after()
            now = self._told(count, after)
            if before is None or after is not None or _differs(before, now):
                tell(now)
                before = now
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _LOOK)

    def _after(self) -> After:
        times = sorted(at - self._since for at in self._welcome.values())
        return After(first=times[0], half=times[len(times) // 2], last=times[-1])

    def _told(self, count: int, after: After | None) -> Told:
        agents = self._agents.values()
        states = Counter(
            status.state or "?" for agent in agents for status in agent.shards.statuses()
        )
        return Told(
            at=time.monotonic() - self._began,
            agents=count,
            joined=len(agents),
            welcome=len(self._welcome),
            opened=sum(agent.dialer.opened for agent in agents),
            starts=sum(agent.shards.starts for agent in agents),
            stops=sum(agent.shards.stops for agent in agents),
            shards=dict(states),
            own=spent(os.getpid()),
            server=None if self._server is None else spent(self._server),
            after=after,
        )


def _differs(one: Told, other: Told) -> bool:
    names = ("joined", "welcome", "opened", "starts", "stops", "shards")
    return any(getattr(one, name) != getattr(other, name) for name in names)


def joining(control_plane: str, tokens: Path) -> GetCertificate:
    """Return what joins with the token that a file names for a node: `NODE TOKEN` a line."""
    known = dict(line.split() for line in tokens.read_text().splitlines() if line.strip())

    async def certificate(node: str, directory: Path) -> Own:
        if node not in known:
            raise Usage(f"{tokens}: there is no token for {node}")
        token = TokenText.parse(known[node])
        return await join(control_plane, token, directory, role=NODE, subject=node)

    return certificate


def issuing(state: Path) -> GetCertificate:
    """Return what signs with the CA in a control plane's state directory, behind its back."""
    authority, clock = Authority.load(state / "authority"), SystemClock()

    async def certificate(node: str, directory: Path) -> Own:
        authority.issue(directory, role=NODE, subject=node, now=clock.now(), lifetime=CERTIFIED_FOR)
        return own_certificate(files_in(directory))

    return certificate


def as_json(told: Told) -> None:
    """Print one line for a program."""
    print(msgspec.json.encode(told).decode(), flush=True)


def as_text(told: Told) -> None:
    """Print one line for a person."""
    shards = ", ".join(f"{count} {state}" for state, count in sorted(told.shards.items()))
    words = f"{told.at:6.1f} s  {told.welcome} of {told.agents} welcome, {told.opened} streams"
    words += f", {told.starts} starts, {told.stops} stops, shards: {shards or 'none'}"
    if told.after is not None:
        after = told.after
        words += f"\n  all welcome: the first after {after.first:.2f} s, "
        words += f"half after {after.half:.2f} s, the last after {after.last:.2f} s"
        words += f"\n  agents: {told.own}; control plane: {told.server or 'not seen'}"
    print(words, flush=True)


async def serve(asked: argparse.Namespace, directory: Path) -> None:
    """Run the agents until a signal ends them."""
    certificate = joining(asked.link, asked.tokens) if asked.tokens else issuing(asked.server_state)
    crowd = Crowd(asked.link, directory, certificate, asked.server_pid)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, crowd.end)
    await crowd.run(fleet(asked.count), as_json if asked.print == "json" else as_text)


def main() -> int:
    """Run until told to end; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--link", required=True, help="HOST:PORT of the control plane's link")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tokens", type=Path, help="a one-time token a node: `NODE TOKEN` a line")
    source.add_argument(
        "--server-state", type=Path, help="a control plane's state directory, for its CA"
    )
    parser.add_argument("--server-pid", type=int, help="the control plane, to tell what it uses")
    parser.add_argument("--dir", type=Path, help="keeps the certificates; else a temporary one")
    parser.add_argument("--print", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    log.setup("agents", level="warning")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES, hard), hard))
    with contextlib.ExitStack() as stack:
        directory = asked.dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="llmgw-agents-"))
        )
        uvloop.run(serve(asked, directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
