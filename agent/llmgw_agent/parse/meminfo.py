"""/proc/meminfo: the machine's memory."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record

_NUMBER = re.compile(r"\s*([0-9]{1,18}) kB\s*$")


class Memory(Record, frozen=True, kw_only=True):
    """Bytes. `available_bytes` is None on kernels that do not say it: it is not guessed."""

    total_bytes: int
    available_bytes: int | None = None


def read_meminfo(text: str) -> Memory:
    """Return total and available memory.

    Raises:
        Unreadable: there is no MemTotal, or it is no number.
    """
    total = _kilobytes(text, "MemTotal:")
    if total is None:
        raise Unreadable(f"/proc/meminfo: no MemTotal in {text[:60]!r}")
    return Memory(total_bytes=total, available_bytes=_kilobytes(text, "MemAvailable:"))


def _kilobytes(text: str, name: str) -> int | None:
    for line in text.splitlines():
        if line.startswith(name):
            match = _NUMBER.match(line[len(name) :])
            if match is None:
                raise Unreadable(f"/proc/meminfo: {line[:80]!r} is not a number of kB")
            return int(match[1]) * 1024
    return None
