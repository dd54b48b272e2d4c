"""Our own braille chart: readings into lines with an axis, the time below, and the ends in words.

What was not measured is blank, and its time is told; zero is drawn, as the lowest dot.
"""

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from llmgw.base.braille import columns, rows
from llmgw.base.units import show_bytes, show_seconds
from llmgw.model.history import CELSIUS, PERCENT
from llmgw_tui.draw import measures
from llmgw_tui.draw.text import Pieces, pieces_width, said, width_of

AXIS = 8
"""Cells that the axis takes at the left: a label of six, and the line."""
LEAST_WIDTH = AXIS + 10
_BEFORE = 6
_FIXED_TOPS = {PERCENT: 100.0, CELSIUS: 100.0}


class Trend(NamedTuple):
    """What one chart shows."""

    title: str
    values: Sequence[float | None]
    """Oldest first, one a step."""
    last: int
    """The number of the last value, counted in steps since the epoch."""
    step: float
    """Seconds between two values."""
    unit: str
    top: float | None = None
    """What a full column stands for, where that is known; None: by the unit and the values."""


def chart(trend: Trend, width: int, height: int) -> list[Pieces]:
    """Return a chart of exactly `height` lines: title, plot, time.

    Without any reading it is the title and words that say so, and shorter.
    """
    known = [value for value in trend.values if value is not None]
    if not known:
        return [said((trend.title, "strong"), ("  nothing measured in this time", "absent"))]
    plot = max(1, height - 2)
    lines = [_title(trend, known, width)]
    room = max(1, width - AXIS)
    top = top_of(trend.unit, trend.top, max(known))
    drawn = rows(columns(trend.values, trend.last, 2 * room), plot, top)
    labels = _labels(top, trend.unit, plot)
    for label, row in zip(labels, drawn, strict=True):
        mark = "┤" if label else "│"
        lines.append(said((f"{label:>{_BEFORE}} {mark}", "faint"), (row, "fill2")))
    lines.append(said((" " * AXIS + times(len(trend.values) * trend.step, room), "faint")))
    return lines


def top_of(unit: str, known: float | None, highest: float) -> float:
    """Return what a full column stands for: as much as there is, a round number beyond, or more."""
    if known is not None and known > 0:
        return max(known, highest)
    fixed = _FIXED_TOPS.get(unit)
    if fixed is not None:
        return max(fixed, ceil(highest / 10) * 10.0)
    return max(1.0, round_up(highest))


def shown(value: float | None, unit: str) -> str:
    """Return a reading as people read it; `-` when there is none."""
    if value is None or not isfinite(value):
        return measures.ABSENT
    match unit:
        case "percent":
            return measures.number(value, "%")
        case "bytes":
            return show_bytes(round(value))
        case "watts":
            return measures.number(value, " W")
        case "celsius":
            return measures.number(value, "°C")
        case "seconds":
            return show_seconds(value)
        case "count":
            return measures.number(value)
        case _:
            return measures.number(value, digits=2 if value < 10 else 1)


def times(seconds: float, width: int) -> str:
    """Return the time below a chart: how long ago its left edge is, its middle, and now."""
    left, right = f"-{duration(seconds)}", "now"
    text = left.ljust(width - len(right)) + right
    middle = f"-{duration(seconds / 2)}"
    at = width // 2 - len(middle) // 2
    if at > len(left) + 1 and at + len(middle) + 1 < width - len(right):
        text = text[:at] + middle + text[at + len(middle) :]
    return text[:width] if width >= len(left) + len(right) else right[:width]


def duration(seconds: float) -> str:
    """Return a round span of time: `10m`, `1h`, `90m`, `7d`."""
    minutes = round(seconds / 60)
    if minutes % 1440 == 0 and minutes >= 1440:
        return f"{minutes // 1440}d"
    if minutes % 60 == 0 and minutes >= 60:
        return f"{minutes // 60}h"
    return f"{minutes}m"


def _title(trend: Trend, known: list[float], width: int) -> Pieces:
    """Return name and last value, and of the rest what fits whole: gaps, then max, then min."""
    now = trend.values[-1]
    missing = len(trend.values) - len(known)
    gap = f"  gaps {measures.age(max(60.0, missing * trend.step))}" if missing else ""
    unit = trend.unit
    start = said(
        (trend.title, "strong"),
        ("  now ", "dim"),
        (shown(now, unit), "absent" if now is None else "text"),
    )
    low, high = f"  min {shown(min(known), unit)}", f"  max {shown(max(known), unit)}"
    room = width - pieces_width(start)
    fitting = (text for text in (low + high + gap, high + gap, gap) if width_of(text) <= room)
    return (*start, *said((next(fitting, ""), "dim")))


def _labels(top: float, unit: str, plot: int) -> list[str]:
    """Return each row's label: the top, the middle where it has a row of its own, and nothing."""
    labels = [""] * plot
    labels[-1] = "0"
    if plot >= 4 and plot % 2 == 0:
        labels[plot // 2] = shown(top / 2, unit)
    labels[0] = shown(top, unit)
    return labels


def round_up(value: float) -> float:
    """Return the next of … 0.5, 1, 2, 5, 10, 20, 50 … that is not less; 1 of nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value * (1 - 1e-9))
