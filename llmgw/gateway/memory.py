"""How much memory there is for this process: the machine's, or what its control group is left."""

import os
from contextlib import suppress
from pathlib import Path

_OWN = "proc/self/cgroup"
_GROUPS = "sys/fs/cgroup"
_MOST = "memory.max"


def memory_of_machine(root: Path = Path("/")) -> int:
    """Return the bytes that this process and those beside it may use.

    Args:
        root: where `/proc` and `/sys` lie.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_limits(root)])


def _limits(root: Path) -> list[int]:
    """Return the limits of this process's control group and of those above it (version 2)."""
    found = []
    for group in _groups(root):
        # A group without a limit says `max`, and the topmost has no such file.
        with suppress(OSError, ValueError):
            found.append(int((group / _MOST).read_text()))
    return found


def _groups(root: Path) -> list[Path]:
    top = root / _GROUPS
    with suppress(OSError):
        for line in (root / _OWN).read_text().splitlines():
            if line.startswith("0::/") and ".." not in line:
                own = top / line.removeprefix("0::/")
                return [own, *(one for one in own.parents if one.is_relative_to(top))]
    return [top]
