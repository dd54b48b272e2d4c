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

PRINTED_MOST = 4 << 20
"""Bytes that a tool may print: `nvidia-smi -q` of 16 cards with many processes has half of one."""

ANSWER_MOST = 4 << 20
"""Bytes of an HTTP answer, decompressed: a page of metrics has some hundred thousand."""

FILE_MOST = 16 << 20
"""Bytes of a file that is read whole: /proc/cpuinfo of a large machine has less than one."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a finished command ended. `rc` is negative when a signal ended it."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class ProcessThere:
    """A live process: what the kernel knows of it without looking into it.

    `started` is the kernel's start time in clock ticks since boot: with the pid it names one
    process for ever, since a pid that is used again has another start time.
    """

    pid: int
    started: int
    group: int


@dataclass(frozen=True, slots=True)
class ProcessSeen(ProcessThere):
    """A live process with what it was started with, which stands in its own memory."""

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
        most: int = PRINTED_MOST,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command to its end and return what it printed; nothing of its group is left.

        It ends with this process, however that ends. What it left running is killed as well.

        Args:
            argv: the command.
            timeout: seconds.
            most: bytes that it may print, on both outputs together.
            env: its whole environment; None: this process's.
            cwd: where it runs.

        Raises:
            NotFound: there is no such program.
            TimedOut: it ran longer than `timeout` seconds and was killed, or could not be; or one
                that can't be killed is still there, and no other was started.
            Unreadable: it printed more than `most`, and was killed.
            OSError: it could not be started.
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
        outlives: bool = True,
    ) -> Child:
        """Start a process in its own session; its output is appended to the file `log`.

        The environment is exactly `env`: nothing is inherited. Output goes to a file and not to a
        pipe because the child has to outlive this process; one that does not outlive it is killed
        when this process ends, however that ends.

        Raises:
            NotFound: there is no such program or user.
        """
        ...

    def look(self, pid: int) -> ProcessThere | None:
        """Return the live process with that pid; None when there is none or it is a zombie."""
        ...

    async def inspect(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid and what it was started with; None as `look`.

        Raises:
            TimedOut: its memory can't be read: it hangs in the kernel.
        """
        ...

    async def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process that was started with that environment variable.

        One whose memory can't be read, and never could, is not among them.
        """
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
            Unreadable: it has more than `FILE_MOST` bytes.
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
        most: int = ANSWER_MOST,
    ) -> HttpAnswer:
        """Send a request and return the whole answer, whatever its status.

        Args:
            method: the method.
            url: the address.
            headers: what is sent with it.
            body: the request's own.
            timeout: seconds for the whole answer.
            most: bytes that the answer may have, decompressed.

        Raises:
            Unreachable: no connection, or it broke.
            TimedOut: no whole answer within `timeout` seconds.
            Unreadable: more than `most` bytes came; no more were read.
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
