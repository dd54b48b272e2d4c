"""The outer world as Protocols: processes, files and HTTP, so that a simulator can stand in for it.

Time and randomness are the fourth (`llmgw.base.clock`, `random.Random`). The real ones live in
`llmgw.base.system` (processes, files) and where httpx may be imported (HTTP).
"""

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Done:
    """How a finished command ended. `rc` is negative when a signal ended it."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A live process as /proc tells it.

    `started` is the kernel's start time in clock ticks since boot: with the pid it names one
    process for ever, since a pid that is used again has another start time.
    """

    pid: int
    started: int
    group: int
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    """Empty when this user may not read it."""


class Child(Protocol):
    """A process that this one started. It leads a session and a process group of its own."""

    @property
    def pid(self) -> int:
        """Return its pid, which is its group's id too."""
        ...

    async def wait(self) -> int:
        """Return its exit status; negative when a signal ended it."""
        ...


class Processes(Protocol):
    """Starting, finding and ending processes."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command to its end and return what it printed.

        Raises:
            NotFound: there is no such program.
            TimedOut: it ran longer than `timeout` seconds; its whole group was killed.
        """
        ...

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        user: str | None = None,
    ) -> Child:
        """Start a process in its own session; its output is appended to the file `log`.

        The environment is exactly `env`: nothing is inherited. Output goes to a file and not to a
        pipe because the child has to outlive this process.

        Raises:
            NotFound: there is no such program or user.
        """
        ...

    def look(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid; None when there is none or it is a zombie."""
        ...

    def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process that was started with that environment variable."""
        ...

    def group_alive(self, group: int) -> bool:
        """Say whether any process that is not a zombie is left in the group."""
        ...

    def signal_group(self, group: int, signal_: signal.Signals) -> bool:
        """Signal a whole group; False when it could not be signalled."""
        ...


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Space of the filesystem that holds a path, in bytes."""

    total: int
    free: int


class Files(Protocol):
    """Small local files. What may block for ever (a network filesystem) does not belong here."""

    def read(self, path: Path) -> bytes:
        """Return the content.

        Raises:
            NotFound: there is no such file.
        """
        ...

    def write(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file in one step (temporary name, fsync, rename); parents are made 0700."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file or a whole directory; nothing happens when it is not there."""
        ...

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the sorted names in a directory; empty when it is not there."""
        ...

    def size(self, path: Path) -> int | None:
        """Return a file's size in bytes; None when it is not there."""
        ...

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on; empty at or behind the end.

        Raises:
            NotFound: there is no such file.
        """
        ...

    def empty(self, path: Path) -> None:
        """Cut a file to nothing in place: who appends to it goes on at its new end."""
        ...

    def space(self, path: Path) -> DiskSpace | None:
        """Return the space of the filesystem of `path` or its nearest existing parent."""
        ...


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer. Header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpStream(Protocol):
    """An HTTP answer whose body is read in pieces."""

    @property
    def status(self) -> int:
        """Return the status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, names in lower case."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives."""
        ...


class Http(Protocol):
    """An HTTP client. Redirects are not followed unless a caller does it on purpose."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float,
    ) -> HttpAnswer:
        """Send a request and return the whole answer, whatever its status.

        Raises:
            Unreachable: no connection, or it broke.
            TimedOut: no whole answer within `timeout` seconds.
        """
        ...

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Open a request whose body is read in pieces; `timeout` holds for each wait."""
        ...
