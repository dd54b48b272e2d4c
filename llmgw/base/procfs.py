"""Processes as /proc tells them (proc(5)), their own memory included.

Command line and environment stand in a process's memory. Who reads them waits for whoever holds its
map, for ever where that one hangs in the kernel: in a fault on a filesystem that is dead, say. So
they are read in threads that can be left behind. (A thread and not a helper process: the wait is
one that SIGKILL ends, it keeps nobody from ending, and there is one for each process that hangs.)
"""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from llmgw.base.errors import TimedOut
from llmgw.base.world import ProcessSeen, ProcessThere

_PROC = Path("/proc")
_CANT_LOOK = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}

PATIENCE = 1.0
"""Seconds for one process's memory, which is read in some microseconds."""


def pids() -> list[int]:
    """Return the pids of this machine."""
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208


def there(pid: int) -> ProcessThere | None:
    """Return the live process with that pid; None when there is none or it is a zombie.

    Raises:
        OSError: this process can't look.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
        # The fields from the state on: the command may hold anything.
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] in "ZX":
            return None
        return ProcessThere(pid=pid, started=int(fields[19]), group=int(fields[2]))
    except (OSError, IndexError, ValueError) as error:
        _check_seen(error)
        return None


def seen(pid: int) -> ProcessSeen | None:
    """Return the live process with that pid and what it was started with; None as `there`.

    It may never return.

    Raises:
        OSError: this process can't look.
    """
    found = there(pid)
    if found is None:
        return None
    try:
        argv = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError as error:
        _check_seen(error)
        return None
    environ = (item.decode(errors="replace").partition("=") for item in _environ(pid) if item)
    return ProcessSeen(
        pid=pid,
        started=found.started,
        group=found.group,
        argv=tuple(a.decode(errors="replace") for a in argv.split(b"\0")[:-1]),
        environ={name: value for name, _, value in environ},
    )


def marked(pid: int, mark: bytes) -> ProcessSeen | None:
    """Return that process when it was started with a variable, `NAME=VALUE`; see `seen`."""
    return seen(pid) if mark in _environ(pid) else None


class Memories:
    """Reads what processes were started with; one whose memory can't be read is left aside.

    Args:
        read: `marked`.
    """

    def __init__(self, read: Callable[[int, bytes], ProcessSeen | None] = marked) -> None:
        self._read = read
        self._hanging: dict[int, threading.Thread] = {}
        """The thread that waits for a process, by pid."""
        self._known: dict[tuple[int, int], ProcessSeen] = {}
        """Processes that were asked for before, by pid and start time."""

    async def of(self, pid: int) -> ProcessSeen | None:
        """Return a live process; None when there is none or it is a zombie.

        Raises:
            TimedOut: its memory can't be read.
            OSError: this process can't look.
        """
        found = await self._looked([pid], seen)
        if not found and (known := self._remembered(pid)) is not None:
            return known
        if not found and pid in self._hanging:
            raise TimedOut(f"pid {pid}: its memory can't be read: it hangs in the kernel")
        return found[0] if found else None

    async def marked(self, name: str, value: str) -> tuple[ProcessSeen, ...]:
        """Return every live process that was started with that environment variable.

        Of those that can't be read the ones are among them that could be before.

        Raises:
            OSError: this process can't look.
        """
        mark = f"{name}={value}".encode()
        listed = pids()
        found = await self._looked(listed, lambda pid: self._read(pid, mark))
        for pid in self._hanging.keys() & set(listed):
            known = self._remembered(pid)
            if known is not None and known.environ.get(name) == value:
                found.append(known)
        self._known = {place: one for place, one in self._known.items() if place[0] in listed}
        return tuple(found)

    def _remembered(self, pid: int) -> ProcessSeen | None:
        alive = there(pid) if pid in self._hanging else None
        return None if alive is None else self._known.get((pid, alive.started))

    async def _looked(
        self, listed: Sequence[int], look: Callable[[int], ProcessSeen | None]
    ) -> list[ProcessSeen]:
        """Look at processes in a thread; go on in another one behind each that hangs."""
        self._hanging = {p: thread for p, thread in self._hanging.items() if thread.is_alive()}
        found: list[ProcessSeen] = []
        rest = [pid for pid in listed if pid not in self._hanging]
        while rest:
            walk = _Walk(rest, look)
            await walk.ends_or_hangs()
            found += walk.found
            if walk.place < len(rest):
                self._hanging[rest[walk.place]] = walk.thread
            rest = rest[walk.place + 1 :]
        self._known |= {(one.pid, one.started): one for one in found}
        return found


class _Walk:
    """One thread that looks at one process after the other, until it ends or is left behind.

    Invariant: what is found is that of the first `place` processes, once it is left behind too.
    """

    def __init__(self, listed: Sequence[int], look: Callable[[int], ProcessSeen | None]) -> None:
        self.ended = asyncio.Event()
        self.place = 0
        self._listed = listed
        self._look = look
        self._found: list[ProcessSeen] = []
        self._error: OSError | None = None
        self._left = False
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self.thread = threading.Thread(target=self._run, name="processes", daemon=True)
        self.thread.start()

    @property
    def found(self) -> list[ProcessSeen]:
        """Return what was found so far.

        Raises:
            OSError: this process can't look.
        """
        if self._error is not None:
            raise self._error
        return self._found

    async def ends_or_hangs(self) -> None:
        """Return at its end, or when it is at one process for longer than `PATIENCE`."""
        at = -1
        while not self.ended.is_set() and at != self.place:
            at = self.place
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self.ended.wait()
        with self._lock:
            self._left = not self.ended.is_set()

    def _run(self) -> None:
        try:
            for pid in self._listed:
                one = self._look(pid)
                with self._lock:
                    if self._left:
                        return
                    self.place += 1
                    self._found += [] if one is None else [one]
        except OSError as error:
            self._error = error
        # The loop may be gone by now.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ended.set)


def _environ(pid: int) -> list[bytes]:
    """Return the variables; none where this user may not read them."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError as error:
        _check_seen(error)
        return []


def _check_seen(error: Exception) -> None:
    """Raise what keeps this process from looking: it must not pass for a process that is gone.

    Whoever believed it would hand out the devices that the process still holds.
    """
    if isinstance(error, OSError) and error.errno in _CANT_LOOK:
        raise error
