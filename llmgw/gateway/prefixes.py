"""Where the table of prefixes lies: in the file that a gateway's workers share, behind the rest."""

import mmap
import os

from llmgw.gateway.mapped import PREFIX_BYTES
from llmgw.gateway.route.prefix import PrefixTable


def private() -> PrefixTable:
    """Return a table that nobody shares."""
    return PrefixTable(memoryview(mmap.mmap(-1, PREFIX_BYTES)).cast("q"))


def attach(fd: int) -> PrefixTable:
    """Return the table in the file that `mapped.create` made."""
    size = os.fstat(fd).st_size
    return PrefixTable(memoryview(mmap.mmap(fd, size))[size - PREFIX_BYTES :].cast("q"))
