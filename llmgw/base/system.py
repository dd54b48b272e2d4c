"""The machine's own processes and files (Linux)."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from llmgw.base import procfs
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.procfs import Memories
from llmgw.base.tied import tied
from llmgw.base.tools import Tools
from llmgw.base.world import (
    FILE_MOST,
    PRINTED_MOST,
    Child,
    DiskSpace,
    Done,
    ProcessSeen,
    ProcessThere,
)

_PIECE = 256 << 10


class SystemChild:
    """A process that this one started; it leads its own session and group.

    Not an asyncio subprocess: its transport kills the process when it is collected, uvloop's can't
    change the user, and an engine has to outlive the loop that started it.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Return its pid, which is its group's id too."""
        return self._process.pid

    async def wait(self) -> int:
        """Return its exit status; negative when a signal ended it."""
        if (rc := self._process.poll()) is not None:
            return rc
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        handle = os.pidfd_open(self._process.pid)
        try:
            loop.add_reader(handle, ended.set)
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        return self._process.wait()


class SystemProcesses:
    """Processes of this machine, as /proc tells them."""

    def __init__(self) -> None:
        self._tools = Tools()
        self._memories = Memories()

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        most: int = PRINTED_MOST,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command to its end; nothing of its group is left."""
        return await self._tools.run(argv, timeout=timeout, most=most, env=env, cwd=cwd)

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
        """Start a process in its own session, its output appended to `log`."""
        if not outlives:
            with tied(argv, env=env, cwd=cwd) as (command, inherited):
                return self._started(command, None, log, None, user, (inherited,))
        return self._started(argv, env, log, cwd, user, ())

    def _started(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        log: Path,
        cwd: Path | None,
        user: str | None,
        inherited: tuple[int, ...],
    ) -> Child:
        if user is not None:
            _known_user(user)
        # O_APPEND: the agent may truncate the file while the engine writes on.
        with open(log, "ab", opener=_private) as out:
            try:
                process = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=user,
                    pass_fds=inherited,
                )
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(f"{argv[0]}: no such program") from error
            except PermissionError as error:
                raise NotFound(f"{argv[0]}: may not be run by this user") from error
        return SystemChild(process)

    def look(self, pid: int) -> ProcessThere | None:
        """Return the live process with that pid; None when there is none or it is a zombie."""
        return procfs.there(pid)

    async def inspect(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid and what it was started with."""
        return await self._memories.of(pid)

    async def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process that was started with that environment variable."""
        return await self._memories.marked(name, value)

    def group_alive(self, group: int) -> bool:
        """Say whether any process that is not a zombie is left in the group."""
        found = (procfs.there(pid) for pid in procfs.pids())
        return any(one is not None and one.group == group for one in found)

    def signal_group(self, group: int, signal_: signal.Signals) -> bool:
        """Signal a whole group; False when it could not be signalled."""
        if group <= 1:
            return False
        try:
            os.killpg(group, signal_)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class SystemFiles:
    """Local files of this machine."""

    def read(self, path: Path) -> bytes:
        """Return the content."""
        data = self.read_part(path, 0, FILE_MOST + 1)
        if len(data) > FILE_MOST:
            raise Unreadable(f"{path}: more than {FILE_MOST >> 20} MiB")
        return data

    def write(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file in one step; parents are made 0700."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                os.fchmod(out.fileno(), mode)
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise

    def remove(self, path: Path) -> None:
        """Remove a file or a whole directory; nothing happens when it is not there."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the sorted names in a directory; empty when it is not there."""
        try:
            return tuple(sorted(entry.name for entry in path.iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def size(self, path: Path) -> int | None:
        """Return a file's size in bytes; None when it is not there."""
        try:
            return path.stat().st_size
        except OSError:
            return None

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on."""
        try:
            # Opened without waiting: a pipe has nobody at its other end.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{path}: no such file") from error
        try:
            if offset:
                os.lseek(handle, offset, os.SEEK_SET)
            return b"".join(_pieces(handle, most))
        finally:
            os.close(handle)

    def empty(self, path: Path) -> None:
        """Cut a file to nothing in place."""
        with suppress(FileNotFoundError):
            os.truncate(path, 0)

    def space(self, path: Path) -> DiskSpace | None:
        """Return the space of the filesystem of `path` or its nearest existing parent."""
        for place in (path, *path.parents):
            try:
                seen = os.statvfs(place)
            except FileNotFoundError:
                continue
            except OSError:
                return None
            return DiskSpace(
                total=seen.f_blocks * seen.f_frsize, free=seen.f_bavail * seen.f_frsize
            )
        return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _pieces(handle: int, most: int) -> Iterator[bytes]:
    while most > 0 and (piece := os.read(handle, min(most, _PIECE))):
        most -= len(piece)
        yield piece


def _known_user(user: str) -> None:
    try:
        pwd.getpwnam(user)
    except KeyError as error:
        raise NotFound(f"user {user!r} does not exist on this machine") from error
