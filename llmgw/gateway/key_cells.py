"""What keys used and may use, shared by all workers without a lock.

The second part of the file whose first part `Cells` is. One 64-bit cell has one writer. A worker
has a row of counts a key: how many requests, tokens, refusals there were (totals that a worker's
successor goes on from) and how many requests run. The parent has a block a key: its limits, what
the counts were when the limits' windows began, and the rings from which that follows.
"""

import mmap
from collections.abc import Iterator, MutableSequence
from typing import cast

from llmgw.gateway.admission.window import DAY, MINUTE, Window
from llmgw.gateway.mapped import (
    BLOCK,
    BLOCKS_BYTES,
    COUNTS,
    FLIGHT_ROW_BYTES,
    KEY_BYTES,
    KEYS,
    rows_of,
)

REQUESTS, TOKENS, SHORT, RUNNING = range(4)
"""The counts of a row. SHORT: requests that were refused because the limit is reached."""
NONE = -1
"""In place of a limit: there is none."""
CONCURRENT_AT, MORE_AT = 6, 7
_ROW = COUNTS * KEYS
_PIECE = 64 * KEY_BYTES


class Limit:
    """One kind of limit over a window, and where its cells lie in a key's block."""

    __slots__ = ("at", "count", "name", "newest", "ring", "window")

    def __init__(self, name: str, count: int, window: Window, at: int, ring: int) -> None:
        self.name = name
        """Of the key's field."""
        self.count = count
        """Which count it limits."""
        self.window = window
        self.at = at
        """The limit; the cell after it is the count at which the window begins."""
        self.ring = ring
        self.newest = 0 if window is MINUTE else 1
        """Where the number of the newest slot lies in the block that belongs to no key."""


PER_MINUTE = Limit("requests_per_minute", REQUESTS, MINUTE, 0, 8)
TOKENS_PER_MINUTE = Limit("tokens_per_minute", TOKENS, MINUTE, 2, 8 + MINUTE.cells)
TOKENS_PER_DAY = Limit("tokens_per_day", TOKENS, DAY, 4, 8 + 2 * MINUTE.cells)
LIMITS = (PER_MINUTE, TOKENS_PER_MINUTE, TOKENS_PER_DAY)


class KeyCells:
    """The table as one worker (its row) or the parent (which writes the blocks) sees it."""

    def __init__(self, table: mmap.mmap, rows: int, row: int) -> None:
        cells = memoryview(table).cast("q")
        self.rows = rows
        self.blocks = cells[: (KEYS + 1) * BLOCK]
        self._rows = cells[(KEYS + 1) * BLOCK :]
        self._base = row * _ROW
        self._seen = [b""] * (rows * COUNTS)
        """By row and count: what `changed` saw last."""

    @classmethod
    def private(cls) -> "KeyCells":
        """Return a table of one row that nobody shares."""
        return cls(mmap.mmap(-1, BLOCKS_BYTES + _ROW * KEY_BYTES), 1, 0)

    @classmethod
    def attach(cls, fd: int, row: int) -> "KeyCells":
        """Return the second part of the file that `mapped.create` made, with this worker's row."""
        rows = rows_of(fd)
        length = BLOCKS_BYTES + rows * _ROW * KEY_BYTES
        return cls(mmap.mmap(fd, length, offset=rows * FLIGHT_ROW_BYTES), rows, row)

    def total(self, count: int, column: int) -> int:
        """Return a count of a key, over all workers."""
        return sum(self._rows[count * KEYS + column :: _ROW])

    def add(self, count: int, column: int, change: int) -> None:
        """Change this row's count."""
        self._rows[self._base + count * KEYS + column] += change

    def changed(self, columns: int) -> set[int]:
        """Return of the first so many columns those of which a count changed since the last call.

        Nobody notes what changes, where requests are served: what is there is compared as one text
        a row and count, which costs some microseconds for each thousand columns.
        """
        found: set[int] = set()
        for at, before in enumerate(self._seen):
            row, count = divmod(at, COUNTS)
            begin = row * _ROW + count * KEYS
            now = self._rows[begin : begin + columns].tobytes()
            if now != before:
                self._seen[at] = now
                found.update(_differences(before.ljust(len(now), b"\0"), now))
        return found

    def none_runs(self, row: int, column: int) -> None:
        """Note that nothing runs at a worker that died; what it counted stays."""
        self._rows[row * _ROW + RUNNING * KEYS + column] = 0

    def ring(self, limit: Limit, column: int) -> MutableSequence[int]:
        """Return the ring of a limit."""
        begin = column * BLOCK + limit.ring
        # A view of integers is one in all that is asked of it here: to read and write by place.
        return cast("MutableSequence[int]", self.blocks[begin : begin + limit.window.cells])

    def newest(self, limit: Limit) -> int:
        """Return the slot of the limit's window that was begun last."""
        return self.blocks[KEYS * BLOCK + limit.newest]

    def begin_slot(self, limit: Limit, slot: int) -> None:
        """Note that every ring of the limit's window has begun a slot."""
        self.blocks[KEYS * BLOCK + limit.newest] = slot

    def block(self, column: int) -> int:
        """Return where a key's block begins."""
        return column * BLOCK


def _differences(before: bytes, now: bytes) -> Iterator[int]:
    """Yield the places of the 64-bit cells that differ."""
    for begin in range(0, len(now), _PIECE):
        old, new = before[begin : begin + _PIECE], now[begin : begin + _PIECE]
        if old != new:
            pairs = zip(memoryview(old).cast("q"), memoryview(new).cast("q"), strict=False)
            first = begin // KEY_BYTES
            yield from (first + at for at, (was, is_) in enumerate(pairs) if was != is_)
