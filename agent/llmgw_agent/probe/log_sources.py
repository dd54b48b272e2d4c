"""Where the kernel log of this boot can be read: /dev/kmsg, else the journal, else dmesg.

Each gives what it has not given before. Programs may write into the log as well, under any facility
but the kernel's own (kernel documentation, ABI/testing/dev-kmsg). A record of the device says its
facility; journal and dmesg are asked for the kernel's alone, since what they print does not.
"""

import asyncio
import re
from typing import Protocol

from llmgw.base.errors import Refused
from llmgw.base.world import Processes
from llmgw_agent.host.kmsg import Kmsg

PARTS = (b"NVRM: ", b"[10de:")
"""What a record of /dev/kmsg has to hold: all that `parse.kernel_log` reads does."""

_RECORDS_AT_ONCE = 500
"""Read without letting anything else run: half a millisecond."""
_LINES_MOST = 20_000
"""Of the journal at once: a noisy machine writes more a boot than anybody wants to read."""
_PRINTED_MOST = 16 << 20
"""Bytes: that many lines of the journal, or a kernel's buffer of the largest usual size."""
_TIMEOUT = 20.0
_CURSOR = re.compile(r"-- cursor: (?P<cursor>\S+)\s*\Z")
_CURSOR_MOST = 1024
"""Characters at the end of what is printed among which the cursor is."""
_LINE_MOST = 1024
"""Characters of a line that is kept to be found again."""
_DIGITS_MOST = 20
_BY_KERNEL = "SYSLOG_FACILITY=0"
"""The journal's option -k is for all that came through the kernel log, whoever wrote it there.

Since 2014 (systemd 218) what the kernel said itself has a facility there, too.
"""


class LogSource(Protocol):
    """A kernel log. Seconds between two readings that do no harm, and where nobody waits for it.

    Both are under the minute for which a reading counts, or near it: cards may be found later.
    """

    name: str
    period: float
    period_without_cards: float

    async def news(self) -> tuple[str, ...]:
        """Return what came since the last reading, in pieces; at first the whole boot.

        Raises:
            NotFound: it is not on this machine.
            Refused: this user may not read it.
            LlmgwError: it can't be read now.
        """
        ...

    @property
    def position(self) -> str | None:
        """Return how far it was read, for `resume` in the same boot; None: that can't be told."""
        ...

    def resume(self, position: str) -> None:
        """Let the first reading begin behind a place up to which it was read before."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class KmsgSource:
    """The kernel's own device."""

    name = "/dev/kmsg"
    period = period_without_cards = 10.0

    def __init__(self, kmsg: Kmsg) -> None:
        self._kmsg = kmsg

    async def news(self) -> tuple[str, ...]:
        """Return the next records."""
        pieces = []
        while True:
            pieces.append(self._kmsg.read(_RECORDS_AT_ONCE))
            if self._kmsg.at_end:
                return tuple(piece for piece in pieces if piece)
            await asyncio.sleep(0)

    @property
    def position(self) -> str | None:
        """Return the number of the last record."""
        return None if self._kmsg.last < 0 else str(self._kmsg.last)

    def resume(self, position: str) -> None:
        """Leave out the records up to a number."""
        if position.isdecimal() and len(position) < _DIGITS_MOST:
            self._kmsg.last = int(position)

    def close(self) -> None:
        """Close the device."""
        self._kmsg.close()


class JournalSource:
    """The journal, which members of the groups adm and systemd-journal may read."""

    name = "journalctl"
    period, period_without_cards = 30.0, 60.0

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._cursor: str | None = None

    async def news(self) -> tuple[str, ...]:
        """Return the kernel's lines behind the cursor."""
        # Behind a cursor these are the next ones, and the rest is for the next reading.
        where = [f"--lines={_LINES_MOST}"]
        if self._cursor is not None:
            where.append(f"--after-cursor={self._cursor}")
        argv = ["journalctl", "-k", _BY_KERNEL, "-b", "-o", "short-iso", "-q", "--no-pager"]
        argv += ["--show-cursor", *where]
        done = await self._processes.run(argv, timeout=_TIMEOUT, most=_PRINTED_MOST)
        start = max(done.out.rfind("\n-- cursor: ", -_CURSOR_MOST) + 1, 0)
        cursor = _CURSOR.match(done.out, start)
        if cursor is None and (done.rc != 0 or self._cursor is None):
            raise Refused(f"journalctl: {_first(done.err) or 'shows no kernel log to this user'}")
        if cursor is None:
            return ()
        self._cursor = cursor["cursor"]
        return (done.out[:start],)

    @property
    def position(self) -> str | None:
        """Return the cursor."""
        return self._cursor

    def resume(self, position: str) -> None:
        """Begin behind a cursor."""
        self._cursor = position

    def close(self) -> None:
        """Nothing is kept open."""


class DmesgSource:
    """The dmesg command, which prints the whole buffer each time."""

    name = "dmesg"
    period, period_without_cards = 45.0, 60.0

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._last: str | None = None
        """The last line that was there, with the ends of lines around it."""

    async def news(self) -> tuple[str, ...]:
        """Return the lines behind the last one that was there before."""
        argv = ("dmesg", "--kernel", "--time-format=iso")
        done = await self._processes.run(argv, timeout=_TIMEOUT, most=_PRINTED_MOST)
        if done.rc != 0:
            raise Refused(f"dmesg: {_first(done.err) or f'ended with {done.rc}'}")
        whole = f"\n{done.out.rstrip()}\n"
        # A last line that is no longer there has left the buffer, and all that is left is later.
        known = -1 if self._last is None else whole.rfind(self._last)
        news = whole[1:] if known < 0 else whole[known + len(self._last or "") :]
        if not done.out.strip():
            return ()
        self._last = whole[whole.rfind("\n", 0, -1) :]
        return (news,) if news else ()

    @property
    def position(self) -> str | None:
        """Return the last line; None of one that is too long to be kept."""
        return None if self._last is None or len(self._last) > _LINE_MOST else self._last

    def resume(self, position: str) -> None:
        """Begin behind a line."""
        self._last = position

    def close(self) -> None:
        """Nothing is kept open."""


def log_sources(processes: Processes) -> tuple[LogSource, ...]:
    """Return where to look, the best first."""
    return (KmsgSource(Kmsg(PARTS)), JournalSource(processes), DmesgSource(processes))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
