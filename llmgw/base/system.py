"""The machine's own processes and files (Linux)."""

import asyncio
import errno
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from llmgw.base.errors import NotFound, TimedOut
from llmgw.base.world import Child, DiskSpace, Done, ProcessSeen

_PROC = Path("/proc")
_CANT_LOOK = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}


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

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command to its end; its whole group is killed when it takes too long."""
        process = await self._spawn(
            argv, env, cwd, asyncio.subprocess.PIPE, asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise TimedOut(f"{argv[0]}: no end within {timeout:g} s") from error
        finally:
            if process.returncode is None:
                self.signal_group(process.pid, signal.SIGKILL)
                await process.wait()
        return Done(
            rc=process.returncode if process.returncode is not None else -9,
            out=out.decode(errors="replace"),
            err=err.decode(errors="replace"),
        )

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        user: str | None = None,
    ) -> Child:
        """Start a process in its own session, its output appended to `log`."""
        if user is not None:
            _known_user(user)
        # O_APPEND: the agent may truncate the file while the engine writes on.
        with open(log, "ab", opener=_private) as out:  # noqa: ASYNC230
            try:
                process = subprocess.Popen(  # noqa: ASYNC220
                    argv,
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=user,
                )
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(f"{argv[0]}: no such program") from error
            except PermissionError as error:
                raise NotFound(f"{argv[0]}: may not be run by this user") from error
        return SystemChild(process)

    def look(self, pid: int) -> ProcessSeen | None:
        """Return the live process with that pid; None when there is none or it is a zombie."""
        try:
            fields = _stat(pid)
            if fields[0] in "ZX":
                return None
            argv = (_PROC / str(pid) / "cmdline").read_bytes()
        except (OSError, IndexError, ValueError) as error:
            _check_seen(error)
            return None
        return ProcessSeen(
            pid=pid,
            started=int(fields[19]),
            group=int(fields[2]),
            argv=tuple(a.decode(errors="replace") for a in argv.split(b"\0")[:-1]),
            environ=_environ(pid),
        )

    def with_environ(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process that was started with that environment variable."""
        wanted = f"{name}={value}".encode()
        found = []
        for pid in _pids():
            try:
                raw = (_PROC / str(pid) / "environ").read_bytes()
            except OSError as error:
                _check_seen(error)
                continue
            if wanted in raw.split(b"\0") and (seen := self.look(pid)) is not None:
                found.append(seen)
        return tuple(found)

    def group_alive(self, group: int) -> bool:
        """Say whether any process that is not a zombie is left in the group."""
        for pid in _pids():
            try:
                fields = _stat(pid)
            except (OSError, IndexError, ValueError) as error:
                _check_seen(error)
                continue
            if int(fields[2]) == group and fields[0] not in "ZX":
                return True
        return False

    def signal_group(self, group: int, signal_: signal.Signals) -> bool:
        """Signal a whole group; False when it could not be signalled."""
        if group <= 1:
            return False
        try:
            os.killpg(group, signal_)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: Path | None,
        out: int | IO[bytes],
        err: int | IO[bytes],
    ) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                env=env,
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{argv[0]}: no such program") from error
        except PermissionError as error:
            raise NotFound(f"{argv[0]}: may not be run by this user") from error


class SystemFiles:
    """Local files of this machine."""

    def read(self, path: Path) -> bytes:
        """Return the content."""
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{path}: no such file") from error

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
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{path}: no such file") from error

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


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208


def _check_seen(error: Exception) -> None:
    """Raise what keeps this process from looking: it must not pass for a process that is gone.

    Whoever believed it would hand out the devices that the process still holds.
    """
    if isinstance(error, OSError) and error.errno in _CANT_LOOK:
        raise error


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on: the command may hold anything."""
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text[text.rindex(")") + 2 :].split()


def _environ(pid: int) -> dict[str, str]:
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError as error:
        _check_seen(error)
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def _known_user(user: str) -> None:
    try:
        pwd.getpwnam(user)
    except KeyError as error:
        raise NotFound(f"user {user!r} does not exist on this machine") from error
