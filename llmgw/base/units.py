"""Bytes and durations as people read and write them. Inside there are only bytes and seconds."""

import math
import re
from datetime import datetime, tzinfo

from llmgw.base.errors import Unreadable

ABSENT = "-"

_LONG_NUMBER = 1e15
"""From here on a number is told by its size: nobody counts so many digits."""
_LONG_TIME = 1e11
"""Seconds; nothing lasts so long."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$")


def parse_seconds(text: str) -> float:
    """Return the seconds of `500ms`, `30s`, `5m`, `2h`, `1d` or `12` (seconds)."""
    match = _DURATION.match(text)
    if match is None:
        raise Unreadable(f"{text!r} is not a duration", hint="write it like 30s, 5m, 2h or 1d")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def show_bytes(count: float | None) -> str:
    """Return a size for a table: `80 GB`, `1.5 MB`; `-` when it is not known."""
    if count is None or not math.isfinite(count):
        return ABSENT
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{show_number(value, 1)} TB"


def show_number(value: float | None, digits: int = 0) -> str:
    """Return a number for a table, short whatever it is; `-` when it is not known or none.

    Args:
        value: the number.
        digits: behind the point.
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:.1e}" if abs(value) >= _LONG_NUMBER else f"{value:z.{digits}f}"


def show_moment(
    at: float | None, pattern: str = "%Y-%m-%d %H:%M:%S", zone: tzinfo | None = None
) -> str:
    """Return a moment as date and time; `-` when it is not known or no time.

    Args:
        at: seconds since the epoch.
        pattern: as `strftime` takes it.
        zone: in which it is told; None: this machine's.
    """
    try:
        return ABSENT if at is None else datetime.fromtimestamp(at, zone).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return ABSENT  # another machine told it, and it is in no year


def show_seconds(seconds: float | None) -> str:
    """Return a duration for a table: `350ms`, `4.2s`, `3m12s`, `4d03h`; `-` when not known."""
    if seconds is None or not abs(seconds) < _LONG_TIME:
        return ABSENT
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return `1 disk` or `2 disks`.

    Args:
        count: how many.
        one: the noun.
        many: its plural, where that is not an `s` at its end.
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"
