"""Running tools to their end: within a time, within a size, and with nothing left behind."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from llmgw.base.errors import TimedOut, Unreadable
from llmgw.base.tied import check_started, tied
from llmgw.base.world import Done

_REST = 1.0
"""Seconds in which what a tool left behind may still write; it is killed then."""

_GONE = 1.0
"""Seconds in which a killed process is gone, unless it hangs in the kernel."""

_HANGING_AT_MOST = 4
"""Processes of one program that hang in the kernel, before it is started no more."""

_PIECE = 64 << 10


class Tools:
    """Runs tools; each ends with this process, and all of its group ends with it.

    A tool that can't be killed (it waits for a driver or a dead filesystem) is left behind and
    known: the same command is not started again while it is there.
    """

    def __init__(self) -> None:
        self._hanging: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        most: int,
        env: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> Done:
        """Run a command to its end; see `llmgw.base.world.Processes`."""
        command = tuple(argv)
        self._check_hanging(command)
        running = _Running(command, most, env, cwd)
        gone = False
        try:
            in_time = await running.ends_within(timeout)
        finally:
            try:
                gone = await running.killed()
            finally:
                if not running.close():
                    self._hanging[command] = running.process
        if running.too_much:
            raise Unreadable(f"{argv[0]} printed more than {most / (1 << 20):g} MiB: ended")
        if not in_time:
            words = "" if gone else f"; pid {running.process.pid} hangs in the kernel"
            raise TimedOut(f"{argv[0]}: no end within {timeout:g} s{words}")
        return running.done()

    def _check_hanging(self, command: tuple[str, ...]) -> None:
        """Raise TimedOut where the command, or too many of its program, still hang."""
        self._hanging = {c: p for c, p in self._hanging.items() if p.poll() is None}
        same = [p.pid for c, p in self._hanging.items() if c[0] == command[0]]
        known = self._hanging.get(command)
        if known is None and len(same) < _HANGING_AT_MOST:
            return
        pids = ", ".join(str(pid) for pid in ([known.pid] if known is not None else same))
        raise TimedOut(f"{command[0]}: not started, pid {pids} of it still hangs in the kernel")


class _Running:
    """One run: its pipes are read as something comes, and its end is seen before it is reaped.

    Invariant: it is reaped only after its group was killed, so that the group's id is its own.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        most: int,
        env: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> None:
        self.too_much = False
        self._program = command[0]
        self._loop = asyncio.get_running_loop()
        self._left = most
        self._over = asyncio.Event()
        """It ended, or printed too much."""
        self._gone = asyncio.Event()
        self._told = asyncio.Event()
        """Nothing more can come."""
        with tied(command, env=env, cwd=cwd) as (argv, inherited):
            self.process = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(inherited,),
            )
        assert self.process.stdout is not None  # noqa: S101 (made with pipes)
        assert self.process.stderr is not None  # noqa: S101 (made with pipes)
        self._pipes = (self.process.stdout, self.process.stderr)
        self._pieces: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in self._pipes}
        self._open = set(self._pieces)
        self._handle = self._watch()

    async def ends_within(self, seconds: float) -> bool:
        """Return whether it ended, or printed too much, in that time; what it wrote is read."""
        if not await _within(seconds, self._over):
            return False
        await _within(_REST, self._told)
        return True

    async def killed(self) -> bool:
        """Kill its whole group; return whether it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return await _within(_GONE, self._gone)

    def close(self) -> bool:
        """Let go of it; return whether it is gone, which it is reaped for."""
        for pipe in self._pipes:
            self._stop_reading(pipe.fileno())
            pipe.close()
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        return self.process.poll() is not None

    def done(self) -> Done:
        """Return how it ended and what it printed.

        Raises:
            NotFound: there is no such program.
            OSError: it could not be started.
        """
        rc = self.process.returncode
        out, err = (b"".join(pieces) for pieces in self._pieces.values())
        check_started(rc, err, self._program)
        return Done(rc=rc, out=out.decode(errors="replace"), err=err.decode(errors="replace"))

    def _watch(self) -> int:
        """Begin to read and to wait; return the handle that tells its end."""
        try:
            handle = os.pidfd_open(self.process.pid)
        except OSError:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pipe in self._pipes:
                pipe.close()
            raise
        self._loop.add_reader(handle, self._end)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_reader(pipe.fileno(), self._take, pipe.fileno())
        return handle

    def _end(self) -> None:
        self._loop.remove_reader(self._handle)
        self._gone.set()
        self._over.set()

    def _take(self, pipe: int) -> None:
        try:
            piece = os.read(pipe, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._stop_reading(pipe)
            return
        self._left -= len(piece)
        if self._left >= 0:
            self._pieces[pipe].append(piece)
            return
        self.too_much = True
        for other in tuple(self._open):
            self._stop_reading(other)
        self._over.set()

    def _stop_reading(self, pipe: int) -> None:
        if pipe in self._open:
            self._open.remove(pipe)
            self._loop.remove_reader(pipe)
        if not self._open:
            self._told.set()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
