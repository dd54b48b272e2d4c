"""/proc/meminfo: the machine's memory."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.tool import Tool

_NUMBER = re.compile(r"\s*([0-9]{1,15}) kB\s*$")


class Memory(Record, frozen=True, kw_only=True):
    """Bytes. `available_bytes` is None on kernels that do not say it: it is not guessed."""

    total_bytes: int
    available_bytes: int | None = None


def read_meminfo(text: str) -> Memory:
    """Return total and available memory.

    Raises:
        Unreadable: there is no MemTotal, or it is no number.
    """
    lines = {name: rest for name, colon, rest in map(_parted, text.splitlines()) if colon}
    total = lines.get("MemTotal")
    if total is None:
        raise Unreadable(f"/proc/meminfo: no MemTotal in {text[:60]!r}")
    total_bytes = _bytes(total)
    if not total_bytes:
        raise Unreadable(f"/proc/meminfo: {f'MemTotal:{total}'[:80]!r} is not a number of kB")
    return Memory(total_bytes=total_bytes, available_bytes=_bytes(lines.get("MemAvailable", "")))


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _bytes(text: str) -> int | None:
    match = _NUMBER.match(text)
    return None if match is None else plausible.size(int(match[1]) * 1024)


TOOLS = (Tool(name="meminfo", how="cat /proc/meminfo", read=read_meminfo),)
