"""How much is in flight at each engine, shared by all workers without a lock.

One mapped table of 32-bit counts: a row a worker, a column an engine. Each cell has one writer, the
worker of its row; a reader adds a column up. The parent clears the row of a worker that died.
"""

import mmap
import os
from collections.abc import Callable, Iterable

WIDTH = 4096
"""Engines that have a column of their own; those beyond share the last one."""
_SIZE = 4


class Cells:
    """The table, as one worker (its row) or the parent (row 0, which it does not write) sees it."""

    def __init__(self, table: mmap.mmap, row: int) -> None:
        self._cells = memoryview(table).cast("i")
        self._base = row * WIDTH

    @classmethod
    def private(cls) -> "Cells":
        """Return a table of one row that nobody shares."""
        return cls(mmap.mmap(-1, WIDTH * _SIZE), 0)

    @classmethod
    def attach(cls, fd: int, row: int) -> "Cells":
        """Return the table that `create` made, with this worker's row."""
        return cls(mmap.mmap(fd, os.fstat(fd).st_size), row)

    def load(self, column: int) -> int:
        """Return what is in flight at an engine, over all workers."""
        return sum(self._cells[column::WIDTH])

    def add(self, column: int, change: int) -> None:
        """Change this row's count."""
        self._cells[self._base + column] += change

    def clear_row(self, row: int) -> None:
        """Set a dead worker's counts to zero."""
        for at in range(row * WIDTH, (row + 1) * WIDTH):
            self._cells[at] = 0


def create(rows: int) -> int:
    """Return a descriptor of a new, zeroed table that children inherit."""
    fd = os.memfd_create("llmgw-in-flight", 0)
    os.ftruncate(fd, rows * WIDTH * _SIZE)
    return fd


class Columns:
    """Which column belongs to which replica.

    A column is given to another replica only when its counts are zero in every row: requests to the
    one before may still run.
    """

    def __init__(self, load: Callable[[int], int]) -> None:
        self._load = load
        self._of: dict[str, int] = {}
        self._free = list(range(WIDTH - 2, -1, -1))

    def keep(self, replicas: Iterable[str]) -> None:
        """Free the columns of all replicas but these."""
        kept = set(replicas)
        for gone in [replica for replica in self._of if replica not in kept]:
            column = self._of.pop(gone)
            if column != WIDTH - 1:
                self._free.insert(0, column)

    def of(self, replica: str) -> int:
        """Return a replica's column, giving it one at first."""
        column = self._of.get(replica)
        if column is None:
            column = self._of[replica] = self._next()
        return column

    def _next(self) -> int:
        for at in range(len(self._free) - 1, -1, -1):
            if self._load(self._free[at]) == 0:
                return self._free.pop(at)
        return WIDTH - 1
