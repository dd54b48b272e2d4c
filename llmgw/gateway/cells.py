"""How much is in flight at each engine, shared by all workers without a lock.

One mapped table of 32-bit counts: a row a worker, a column an engine. Each cell has one writer, the
worker of its row; a reader adds a column up. The parent clears the row of a worker that died.

A second table of the same form says where requests of a worker wait, so that those of another do
not take every place that becomes free: for how many models, since engines beyond the columns share
the last one.
"""

import mmap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmgw.gateway.mapped import FLIGHT_ROW_BYTES, WIDTH, rows_of

IDLE_LOOKS = 8
"""Looks in a row at which a replica that left had nothing, before it is forgotten: a worker may
still send a request there that has not heard that it left.
"""


class Cells:
    """The table, as one worker (its row) or the parent (row 0, which it does not write) sees it."""

    def __init__(self, table: mmap.mmap, row: int) -> None:
        cells = memoryview(table).cast("i")
        half = len(cells) // 2
        self._cells, self._waits = cells[:half], cells[half:]
        self._base = row * WIDTH
        self.rows = half // WIDTH

    @classmethod
    def private(cls) -> "Cells":
        """Return a table of one row that nobody shares."""
        return cls(mmap.mmap(-1, FLIGHT_ROW_BYTES), 0)

    @classmethod
    def attach(cls, fd: int, row: int) -> "Cells":
        """Return the table in the file that `mapped.create` made, with this worker's row."""
        return cls(mmap.mmap(fd, rows_of(fd) * FLIGHT_ROW_BYTES), row)

    def load(self, column: int) -> int:
        """Return what is in flight at an engine, over all workers."""
        return sum(self._cells[column::WIDTH])

    def add(self, column: int, change: int) -> None:
        """Change this row's count."""
        self._cells[self._base + column] += change

    def own(self, column: int) -> int:
        """Return what this worker has in flight at an engine."""
        return self._cells[self._base + column]

    def wait(self, column: int, *, waits: bool) -> None:
        """Note that requests of one model begin to wait for an engine here, or wait no longer."""
        self._waits[self._base + column] += 1 if waits else -1

    def waiting_elsewhere(self, column: int) -> int:
        """Return how many other workers have requests that wait for an engine."""
        return sum(map(bool, self._waits[column::WIDTH])) - bool(self._waits[self._base + column])

    def clear_row(self, row: int) -> None:
        """Set a dead worker's counts to zero."""
        for at in range(row * WIDTH, (row + 1) * WIDTH):
            self._cells[at] = self._waits[at] = 0


@dataclass(slots=True)
class _Left:
    """The column of a replica that left the table."""

    column: int
    seen_idle: int = 0


class Columns:
    """Which column belongs to which replica.

    A column is given to another replica only when its counts are zero in every row: requests to the
    one before may still run, and are told of as that replica's until they have ended.
    """

    def __init__(self, load: Callable[[int], int]) -> None:
        self._load = load
        self._of: dict[str, int] = {}
        self._free = list(range(WIDTH - 2, -1, -1))
        self._left: dict[str, _Left] = {}

    def keep(self, replicas: Iterable[str]) -> None:
        """Free the columns of all replicas but these."""
        kept = set(replicas)
        for gone in [replica for replica in self._of if replica not in kept]:
            column = self._of.pop(gone)
            if column != WIDTH - 1:
                self._free.insert(0, column)
                self._left[gone] = _Left(column)

    def of(self, replica: str) -> int:
        """Return a replica's column, giving it one at first."""
        column = self._of.get(replica)
        if column is None:
            column = self._of[replica] = self._next()
            self._left.pop(replica, None)
            self._left = {name: one for name, one in self._left.items() if one.column != column}
        return column

    def in_flight(self) -> dict[str, int]:
        """Return what is in flight at each replica that has anything, those that left too.

        Replicas that share the last column are each said to have all that is there.
        """
        loads = {replica: self._load(column) for replica, column in self._of.items()}
        for replica, one in list(self._left.items()):
            loads[replica] = load = self._load(one.column)
            one.seen_idle = 0 if load else one.seen_idle + 1
            if one.seen_idle >= IDLE_LOOKS:
                del self._left[replica]
        return {replica: load for replica, load in loads.items() if load > 0}

    def _next(self) -> int:
        for at in range(len(self._free) - 1, -1, -1):
            if self._load(self._free[at]) == 0:
                return self._free.pop(at)
        return WIDTH - 1
