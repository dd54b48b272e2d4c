"""One simulated machine: its disk, its clock, its table of processes. It outlives its agents."""

import asyncio
import itertools
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmgw.base.world import PRINTED_MOST, Done, ProcessSeen
from llmgw.local.sim.clock import SimClock
from llmgw.local.sim.disk import Disk
from llmgw.local.sim.engine import Character, Engine
from llmgw.local.sim.loop import SimLoop

FIRST_PID: Final = 1 << 23
"""Above any pid that a real kernel gives out: a signal that escapes the simulation hits nobody."""

Casting = Callable[[tuple[str, ...]], Character]
"""Returns how an engine that is started with a command line will behave."""


@dataclass
class Machine:
    """A machine.

    Attributes:
        name: its host name.
        host: its address.
        casting: asked for each engine that is started.
        changed: called after each change of the table.
        signalled: called before a signal is taken.
    """

    loop: SimLoop
    name: str
    host: str
    disk: Disk
    casting: Casting = lambda _argv: Character()
    changed: Callable[["Machine", Engine], None] = lambda _machine, _engine: None
    signalled: Callable[["Machine", Engine, signal.Signals], None] = lambda _machine, _e, _s: None

    def __post_init__(self) -> None:
        self.clock = SimClock(self.loop)
        self.engines: dict[int, Engine] = {}
        """Live ones, by pid."""
        self.boots = 0
        self._logs: dict[int, Path] = {}
        self._waiting: dict[int, list[asyncio.Future[int]]] = {}
        self._pids = itertools.count(FIRST_PID)
        self._ticks = itertools.count(50_000)

    def boot(self) -> None:
        """Begin anew, as after a loss of power: every process is gone, the disk is not."""
        self.boots += 1
        for engine in tuple(self.engines.values()):
            engine.faulted = "powered off"
            engine.end(-9)

    def port_free(self, port: int) -> bool:
        """Say whether a port could be listened on."""
        return all(engine.port != port for engine in self.engines.values())

    def listening(self, port: int) -> Engine | None:
        """Return the engine on a port; None: nobody listens there."""
        found = (one for one in self.engines.values() if one.port == port)
        return next(found, None)

    # Processes.

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        most: int = PRINTED_MOST,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run nothing: there are no such commands here."""
        return Done(rc=127, out="", err=f"{argv[0]}: command not found")

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        user: str | None = None,
        outlives: bool = True,
    ) -> "SimChild":
        """Start an engine."""
        pid = next(self._pids)
        seen = ProcessSeen(
            pid=pid, started=next(self._ticks), group=pid, argv=tuple(argv), environ=dict(env)
        )
        self._logs[pid] = log
        engine = Engine(self.loop, seen, self.casting(seen.argv), self._ended, self._says)
        self.engines[pid] = engine
        self.changed(self, engine)
        return SimChild(self, engine)

    def look(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid."""
        engine = self.engines.get(pid)
        return None if engine is None else engine.seen

    async def inspect(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid."""
        return self.look(pid)

    async def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process with that environment variable."""
        live = self.engines.values()
        return tuple(one.seen for one in live if one.seen.environ.get(name) == value)

    def group_alive(self, group: int) -> bool:
        """Say whether anything of a group is left."""
        return group in self.engines

    def signal_group(self, group: int, signal_: signal.Signals) -> bool:
        """Signal a group."""
        engine = self.engines.get(group)
        if engine is None:
            return False
        self.signalled(self, engine, signal_)
        engine.take(signal_)
        return True

    async def waited(self, engine: Engine) -> int:
        """Return a process's exit status when it has ended."""
        if engine.rc is not None:
            return engine.rc
        future: asyncio.Future[int] = self.loop.create_future()
        self._waiting.setdefault(engine.seen.pid, []).append(future)
        return await future

    def _says(self, engine: Engine, line: bytes) -> None:
        self.disk.append(self._logs[engine.seen.pid], line)

    def _ended(self, engine: Engine) -> None:
        pid = engine.seen.pid
        del self.engines[pid]
        for future in self._waiting.pop(pid, ()):
            if not future.done():
                future.set_result(engine.rc if engine.rc is not None else -9)
        self.changed(self, engine)


class SimChild:
    """A process that an agent started; only that agent can wait for it."""

    def __init__(self, machine: Machine, engine: Engine) -> None:
        self._machine = machine
        self._engine = engine

    @property
    def pid(self) -> int:
        """Return its pid, which is its group's id too."""
        return self._engine.seen.pid

    async def wait(self) -> int:
        """Return its exit status."""
        return await self._machine.waited(self._engine)
