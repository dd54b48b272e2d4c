"""The file that the parent and its workers have mapped: its parts and how large they are.

First requests in flight, 32 bits a cell: a row a worker, a column an engine; then in the same way
which workers have requests that wait for an engine (both `Cells`). Then what
keys may use, a block a key, and what they used, a row a worker, 64 bits a cell (`KeyCells`). Last
who holds which prompts, one for all (`PrefixTable`). Pages that nobody touches take no memory.
"""

import os

from llmgw.gateway.route.prefix import WORDS

WIDTH = 4096
"""Engines that have a column of their own; those beyond share the last one."""
FLIGHT_BYTES = 4
FLIGHT_ROW_BYTES = 2 * WIDTH * FLIGHT_BYTES
"""What runs and what waits."""
KEYS = 1 << 14
"""Keys with limits that are told apart; the limits of those beyond are not kept."""
COUNTS = 4
"""Cells of a key in a worker's row."""
BLOCK = 256
"""Cells of a key's block."""
KEY_BYTES = 8
BLOCKS_BYTES = (KEYS + 1) * BLOCK * KEY_BYTES
"""One block more than keys: that one belongs to none."""
PREFIX_BYTES = WORDS * 8
_ROW_BYTES = FLIGHT_ROW_BYTES + COUNTS * KEYS * KEY_BYTES


def create(rows: int) -> int:
    """Return a descriptor of a new, zeroed file for so many workers, which children inherit."""
    fd = os.memfd_create("llmgw-workers", 0)
    os.ftruncate(fd, rows * _ROW_BYTES + BLOCKS_BYTES + PREFIX_BYTES)
    return fd


def rows_of(fd: int) -> int:
    """Return how many workers a file is for."""
    return (os.fstat(fd).st_size - BLOCKS_BYTES - PREFIX_BYTES) // _ROW_BYTES
