"""Where the kernel log of this boot can be read: /dev/kmsg, else the journal, else dmesg.

Each gives what it has not given before.
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
"""Of the journal at first: a noisy machine writes more a boot than anybody wants to read."""
_TIMEOUT = 20.0
_CURSOR = re.compile(r"^-- cursor: (?P<cursor>\S+)\s*\Z", re.MULTILINE)


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
        where = f"--lines={_LINES_MOST}"
        if self._cursor is not None:
            where = f"--after-cursor={self._cursor}"
        argv = ("journalctl", "-k", "-b", "-o", "short-iso", "-q", "--no-pager", "--show-cursor")
        done = await self._processes.run([*argv, where], timeout=_TIMEOUT)
        cursor = _CURSOR.search(done.out)
        if cursor is None and (done.rc != 0 or self._cursor is None):
            raise Refused(f"journalctl: {_first(done.err) or 'shows no kernel log to this user'}")
        if cursor is None:
            return ()
        self._cursor = cursor["cursor"]
        return (done.out[: cursor.start()],)

    def close(self) -> None:
        """Nothing is kept open."""


class DmesgSource:
    """The dmesg command, which prints the whole buffer each time."""

    name = "dmesg"
    period, period_without_cards = 45.0, 60.0

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._last: str | None = None

    async def news(self) -> tuple[str, ...]:
        """Return the lines behind the last one that was there before."""
        done = await self._processes.run(["dmesg", "--time-format=iso"], timeout=_TIMEOUT)
        if done.rc != 0:
            raise Refused(f"dmesg: {_first(done.err) or f'ended with {done.rc}'}")
        lines = done.out.splitlines()
        # A last line that is no longer there has left the buffer, and all that is left is later.
        known = len(lines) - lines[::-1].index(self._last) if self._last in lines else 0
        self._last = lines[-1] if lines else self._last
        news = "".join(f"{line}\n" for line in lines[known:])
        return (news,) if news else ()

    def close(self) -> None:
        """Nothing is kept open."""


def log_sources(processes: Processes) -> tuple[LogSource, ...]:
    """Return where to look, the best first."""
    return (KmsgSource(Kmsg(PARTS)), JournalSource(processes), DmesgSource(processes))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
