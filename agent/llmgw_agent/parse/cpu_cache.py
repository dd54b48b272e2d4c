"""/sys/devices/system/cpu/cpuN/cache: how large a processor's last cache is, and who shares it."""

import re
from collections.abc import Mapping

from llmgw.model.record import Record

_SIZE = re.compile(r"([0-9]{1,9})K\Z")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?\Z")


class Cache(Record, frozen=True, kw_only=True):
    """A cache, and how many processors share it."""

    size_bytes: int
    cpus: int = 1


def last_cache(files: Mapping[str, str]) -> Cache | None:
    """Return the largest cache of a tree `indexN/{size,shared_cpu_list}`; None when none tells."""
    sizes = {
        path.removesuffix("/size"): int(match[1]) * 1024
        for path, text in files.items()
        if path.endswith("/size") and (match := _SIZE.match(text.strip()))
    }
    if not sizes:
        return None
    index = max(sizes, key=lambda path: sizes[path])
    cpus = _count(files.get(f"{index}/shared_cpu_list", ""))
    return Cache(size_bytes=sizes[index], cpus=max(1, cpus))


def _count(text: str) -> int:
    """Return how many processors `0-7,64-71` names."""
    ranges = (_RANGE.match(part) for part in text.strip().split(","))
    return sum(max(0, int(m[2] or m[1]) - int(m[1]) + 1) for m in ranges if m is not None)
