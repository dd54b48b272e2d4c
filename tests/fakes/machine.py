"""A machine in memory: its processes, its files, and what answers on its ports."""

import asyncio
import errno
import itertools
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable
from llmgw.base.world import (
    ANSWER_MOST,
    PRINTED_MOST,
    DiskSpace,
    Done,
    HttpAnswer,
    HttpStream,
    ProcessSeen,
)


@dataclass
class FakeProcess:
    """A process: how it takes signals is set by the test."""

    pid: int
    started: int
    group: int
    argv: tuple[str, ...]
    environ: dict[str, str]
    alive: bool = True
    takes_term: bool = True
    takes_kill: bool = True
    may_signal: bool = True
    memory_readable: bool = True
    signals: list[signal.Signals] = field(default_factory=list)
    ended: "asyncio.Future[int] | None" = None

    def end(self, rc: int) -> None:
        """End as the process itself does."""
        self.alive = False
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(rc)


class FakeChild:
    def __init__(self, process: FakeProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        assert self._process.ended is not None
        return await asyncio.shield(self._process.ended)


class FakeProcesses:
    """Processes in a table. `on_start` is called with each that is started and its log file."""

    def __init__(self, files: "MemoryFiles") -> None:
        self.table: dict[int, FakeProcess] = {}
        self.on_start: Callable[[FakeProcess, Path], None] = lambda process, log: None
        self.on_run: Callable[[Sequence[str]], Done | LlmgwError] = lambda argv: Done(0, "", "")
        self.ran: list[tuple[str, ...]] = []
        self._files = files
        self._pids = itertools.count(1000)
        self._ticks = itertools.count(50_000)

    def add(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        pid: int | None = None,
        group: int | None = None,
        started: int | None = None,
    ) -> FakeProcess:
        """Put a process into the table that nobody of this test started."""
        pid = next(self._pids) if pid is None else pid
        process = FakeProcess(
            pid=pid,
            started=next(self._ticks) if started is None else started,
            group=pid if group is None else group,
            argv=tuple(argv),
            environ=dict(environ),
        )
        self.table[pid] = process
        return process

    def live(self) -> list[FakeProcess]:
        return [process for process in self.table.values() if process.alive]

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        most: int = PRINTED_MOST,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        self.ran.append(tuple(argv))
        answer = self.on_run(argv)
        if isinstance(answer, LlmgwError):
            raise answer
        return answer

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        user: str | None = None,
        outlives: bool = True,
    ) -> FakeChild:
        if argv[0] == "/missing":
            raise NotFound(f"{argv[0]}: no such program")
        process = self.add(argv, env)
        process.ended = asyncio.get_running_loop().create_future()
        self._files.content.setdefault(log, b"")
        self.on_start(process, log)
        return FakeChild(process)

    def look(self, pid: int) -> ProcessSeen | None:
        process = self.table.get(pid)
        return _seen(process) if process is not None and process.alive else None

    async def inspect(self, pid: int) -> ProcessSeen | None:
        seen = self.look(pid)
        if seen is not None and not self.table[pid].memory_readable:
            raise TimedOut(f"pid {pid}: its memory can't be read: it hangs in the kernel")
        return seen

    async def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        named = (p for p in self.live() if p.environ.get(name) == value)
        return tuple(_seen(p) for p in named if p.memory_readable)

    def group_alive(self, group: int) -> bool:
        return any(process.group == group for process in self.live())

    def signal_group(self, group: int, signal_: signal.Signals) -> bool:
        members = [process for process in self.live() if process.group == group]
        if not members or not all(process.may_signal for process in members):
            return False
        for process in members:
            process.signals.append(signal_)
            taken = process.takes_kill if signal_ == signal.SIGKILL else process.takes_term
            if taken:
                process.end(-signal_ if signal_ == signal.SIGKILL else 0)
        return True


def _seen(process: FakeProcess) -> ProcessSeen:
    return ProcessSeen(
        pid=process.pid,
        started=process.started,
        group=process.group,
        argv=process.argv,
        environ=dict(process.environ),
    )


class MemoryFiles:
    """Files in a dictionary.

    `full` makes every write fail as a full disk does, `read_only` every removal too.
    """

    def __init__(self) -> None:
        self.content: dict[Path, bytes] = {}
        self.modes: dict[Path, int] = {}
        self.full = False
        self.read_only = False

    def read(self, path: Path) -> bytes:
        try:
            return self.content[path]
        except KeyError as error:
            raise NotFound(f"{path}: no such file") from error

    def write(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        self._check_writable(path)
        self.content[path] = data
        self.modes[path] = mode

    def append(self, path: Path, data: bytes) -> None:
        """Append as an engine does."""
        self.content[path] = self.content.get(path, b"") + data

    def remove(self, path: Path) -> None:
        known = [p for p in self.content if p == path or path in p.parents]
        if known:
            self._check_writable(path)
        for one in known:
            del self.content[one]

    def names(self, path: Path) -> tuple[str, ...]:
        inside = [p.relative_to(path).parts[0] for p in self.content if path in p.parents]
        return tuple(sorted(set(inside)))

    def size(self, path: Path) -> int | None:
        return len(self.content[path]) if path in self.content else None

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        return self.read(path)[offset : offset + most]

    def empty(self, path: Path) -> None:
        if path in self.content:
            self.content[path] = b""

    def space(self, path: Path) -> DiskSpace | None:
        return None

    def _check_writable(self, path: Path) -> None:
        if self.read_only:
            raise OSError(errno.EROFS, "Read-only file system", str(path))


Answering = Callable[[str, Mapping[str, str]], HttpAnswer]
"""Url and headers to an answer."""


class FakeHttp:
    """HTTP whose answers the test gives; by default nobody listens."""

    def __init__(self) -> None:
        self.answering: Answering = nobody
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float,
        most: int = ANSWER_MOST,
    ) -> HttpAnswer:
        self.asked.append((url, dict(headers or {})))
        return self.answering(url, headers or {})

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> AsyncIterator[HttpStream]:
        raise Unreachable(f"{url}: connection refused")
        yield


def nobody(url: str, headers: Mapping[str, str]) -> HttpAnswer:
    raise Unreachable(f"{url}: connection refused")
