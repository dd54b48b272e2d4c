"""/proc/stat, /proc/loadavg and /proc/PID/stat: who uses the processors."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

_LOAD = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,4})?\Z", re.ASCII)


class CpuTimes(Record, frozen=True, kw_only=True):
    """Clock ticks of all processors since boot, and how many processors there are."""

    busy: int
    total: int
    cpus: int


class Load(Record, frozen=True, kw_only=True):
    """Load averages over the last 1, 5 and 15 minutes; a later one is None where it is not told."""

    one: float
    five: float | None = None
    fifteen: float | None = None


class ProcessUse(Record, frozen=True, kw_only=True):
    """What one process has used. `ticks`: processor time in clock ticks; memory in pages."""

    pid: int
    state: str
    group: int
    session: int
    ticks: int
    pages: int


def read_stat(text: str) -> CpuTimes:
    """Return the times of all processors together.

    Raises:
        Unreadable: the first line is not `cpu` with its numbers.
    """
    lines = lines_of(text)
    fields = lines[0].split() if lines else []
    if len(fields) < 5 or fields[0] != "cpu" or not all(_number(f) for f in fields[1:]):
        raise Unreadable(f"/proc/stat: {text[:80]!r} does not begin with the processors' times")
    # Guest time (fields 9 and 10) is part of user time already.
    times = [int(field) for field in fields[1:9]]
    idle = times[3] + (times[4] if len(times) > 4 else 0)
    cpus = sum(1 for line in lines[1:] if line.startswith("cpu"))
    return CpuTimes(busy=sum(times) - idle, total=sum(times), cpus=cpus)


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return the share of time in which processors worked, 0-100; None when no time passed."""
    total = after.total - before.total
    if total <= 0:
        return None
    # Counters of a virtual machine may step back a little: the share stays in its bounds.
    return min(100.0, max(0.0, 100.0 * (after.busy - before.busy) / total))


def read_loadavg(text: str) -> Load:
    """Return the load averages.

    Raises:
        Unreadable: the text does not begin with a number.
    """
    one, five, fifteen = (_load(field) for field in [*text.split()[:3], "", "", ""][:3])
    if one is None:
        raise Unreadable(f"/proc/loadavg: {text[:60]!r} does not begin with a load")
    return Load(one=one, five=five, fifteen=fifteen)


def read_process(text: str) -> ProcessUse:
    """Return what one process has used, from its /proc/PID/stat.

    Raises:
        Unreadable: too few fields, or a field is no number.
    """
    # The command stands in brackets and may hold anything, brackets and blanks too.
    pid, _, rest = text.partition(" (")
    fields = rest[rest.rfind(")") + 1 :].split()
    numbers = [pid, *(fields[i] for i in (2, 3, 11, 12, 21) if i < len(fields))]
    if len(numbers) < 6 or not all(_number(field.removeprefix("-")) for field in numbers):
        raise Unreadable(f"/proc/PID/stat: {text[:80]!r}")
    return ProcessUse(
        pid=int(pid),
        state=fields[0],
        group=int(fields[2]),
        session=int(fields[3]),
        ticks=int(fields[11]) + int(fields[12]),
        pages=int(fields[21]),
    )


def _number(field: str) -> bool:
    return field.isascii() and field.isdigit() and len(field) <= 17


def _load(field: str) -> float | None:
    return float(field) if _LOAD.match(field) else None


TOOLS = (
    Tool(name="proc-stat", how="cat /proc/stat", read=read_stat),
    Tool(name="loadavg", how="cat /proc/loadavg", read=read_loadavg),
)
