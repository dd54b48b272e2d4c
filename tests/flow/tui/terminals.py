"""A console in a pseudo-terminal: what it writes is counted and drawn, keys are sent."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 30.0
CLEARED = re.compile(rb"\x1b\[2J(\x1b\[[?<0-9]+[a-z])*\x1b\[\?1049l")
SYNC_QUERY, SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"


class Terminal:
    """Runs one command under a pseudo-terminal and draws its output with pyte."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 80,
        lines: int = 24,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.screen: Any = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.output = bytearray()
        self.code: int | None = None
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            _become(argv, environ or {})
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            status = os.waitpid(self.pid, 0)[1]
            self.code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):
            os.close(self._master)

    def send(self, text: str) -> None:
        """Type."""
        os.write(self._master, text.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size."""
        self.screen.resize(lines, columns)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def hang_up(self) -> None:
        """Close the terminal, as a lost ssh connection does."""
        os.close(self._master)
        self._master = -1

    def text(self) -> str:
        """Return what the screen shows."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds: float) -> int:
        """Take what comes within some seconds; return how many bytes."""
        before = len(self.output)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._read_some(left):
                break
        return len(self.output) - before

    def wait_for(self, condition: Callable[[], object], what: str = "") -> None:
        """Read until something holds."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            alive = self._read_some(0.05)
            if time.monotonic() > end or (not alive and not condition()):
                raise AssertionError(f"not seen: {what or condition}; the screen:\n{self.text()}")

    def wait_text(self, *words: str) -> None:
        """Read until the screen shows all of these."""
        self.wait_for(lambda: all(word in self.text() for word in words), " ".join(words))

    def settle(self, quiet: float = 0.4) -> None:
        """Read until nothing has come for a while."""
        while self.read(quiet):
            pass

    def exit_code(self) -> int:
        """Read to the end; return the exit code, negative when a signal ended it."""
        end = time.monotonic() + TIMEOUT
        while self.code is None:
            if self._master >= 0:
                self._read_some(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise AssertionError(f"did not end; the screen:\n{self.text()}")
        if self._master >= 0:
            self.read(0.1)
        return self.code

    def restored(self) -> bool:
        """Say whether the terminal was left as it was found: screen, cursor, mouse, paste, keys.

        The screen is cleared before it is left: tmux mixes one that has grown into the other.
        """
        said = bytes(self.output)
        pairs = (
            (b"\x1b[?1049h", b"\x1b[?1049l"),
            (b"\x1b[?25l", b"\x1b[?25h"),
            (b"\x1b[?1000h", b"\x1b[?1000l"),
            (b"\x1b[?2004h", b"\x1b[?2004l"),
        )
        undone = all(said.rfind(off) > said.rfind(on) for on, off in pairs if on in said)
        return undone and (b"\x1b[?1049h" not in said or bool(CLEARED.search(said)))

    def _read_some(self, seconds: float) -> bool:
        """Read once; False when the other side is gone."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        self.output += data
        # pyte knows neither: the query would be drawn as a letter, and the kitty keyboard too.
        if SYNC_QUERY in data:
            os.write(self._master, SYNC_ANSWER)
        self._stream.feed(_known(data))
        return bool(data)


def _known(data: bytes) -> bytes:
    for unknown in (SYNC_QUERY, b"\x1b[?2048$p", b"\x1b[>1u", b"\x1b[<u", b"\x1b[>25u"):
        data = data.replace(unknown, b"")
    return data


def _become(argv: Sequence[str], environ: dict[str, str]) -> None:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    paths = [str(ROOT / part) for part in ("", "agent", "tui", "proto")]
    found = {
        **inherited,
        "PYTHONPATH": os.pathsep.join(paths),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        **environ,
    }
    os.chdir(ROOT)
    os.execvpe(argv[0], list(argv), found)


def console(*arguments: str) -> list[str]:
    """Return the command line of the console on a recorded fleet."""
    return [sys.executable, "-m", "tests.fakes.console_main", *arguments]
