"""Numbers as people read them, bars and sparklines. What is not known is `-`, never 0."""

from collections.abc import Sequence
from math import isnan

from llmgw.base import units
from llmgw.base.units import show_number, show_seconds
from llmgw_tui.draw.text import Piece, Pieces, said

ABSENT = units.ABSENT
_FULL, _HALF, _TRACK = "━", "╸", "─"
_STEPS = ((0.60, "fill1"), (0.85, "fill2"), (float("inf"), "fill3"))
_LEFT_DOTS = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT_DOTS = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def share_of(part: float | None, whole: float | None) -> float | None:
    """Return part of whole, 0 to 1; None when either is not known or there is no whole."""
    if part is None or whole is None or whole <= 0:
        return None
    return min(1.0, max(0.0, part / whole))


def percent(share: float | None) -> str:
    """Return `42%`, or `-`."""
    return number(None if share is None else share * 100, "%")


def number(value: float | None, unit: str = "", digits: int = 0) -> str:
    """Return a number with its unit, short whatever it is, or `-`."""
    shown = show_number(value, digits)
    return shown if shown == ABSENT else f"{shown}{unit}"


def short(value: int) -> str:
    """Return a count in four or five cells: `999`, `12.3k`, `4.5M`."""
    if abs(value) < 10_000:
        return str(value)
    scaled = float(value)
    for unit in ("", "k", "M", "G", "T"):
        if abs(scaled) < 999.5 or unit == "T":
            digits = 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{digits}f}{unit}"
        scaled /= 1000
    return str(value)


def counted(count: int, one: str, many: str = "") -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def age(seconds: float | None) -> str:
    """Return an age in whole minutes, so that a table at rest is not painted: `<1m`, `2h05m`."""
    if seconds is None or show_seconds(seconds) == ABSENT:
        return ABSENT
    minutes = int(max(0.0, seconds)) // 60
    if minutes < 1:
        return "<1m"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 1440:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes // 1440}d{minutes % 1440 // 60:02d}h"


def fill_role(share: float) -> str:
    """Return the role of a bar's fill: one hue, lighter as it fills, never a state's colour."""
    return next(role for most, role in _STEPS if share < most)


def bar(share: float | None, width: int) -> Pieces:
    """Return a bar of exactly `width` cells in steps of half a cell; blank when not known."""
    if width <= 0:
        return ()
    if share is None:
        return said(" " * width)
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    if share > 0 and halves == 0:
        halves = 1
    full, half = divmod(halves, 2)
    filled = _FULL * full + _HALF * half
    return said((filled, fill_role(share)), (_TRACK * (width - full - half), "track"))


def gauge(share: float | None, words: str, width: int) -> Pieces:
    """Return a bar and its words in exactly `width` cells; what is not known is a lone `-`."""
    if share is None:
        return said((ABSENT.rjust(width), "absent"))
    room = width - len(words) - 1
    if room < 2:
        return said(words.rjust(width)[:width])
    return (*bar(share, room), *said(" ", words))


def spark(values: Sequence[float], width: int, top: float = 1.0) -> Pieces:
    """Return the newest values as braille, two a cell, oldest first; a gap (NaN) stays blank."""
    shown = list(values[-2 * width :])
    shown = [float("nan")] * (2 * width - len(shown)) + shown
    cells = [
        chr(0x2800 + _dots(left, top, _LEFT_DOTS) + _dots(right, top, _RIGHT_DOTS))
        for left, right in zip(shown[::2], shown[1::2], strict=True)
    ]
    return (Piece("".join(cells).replace("\u2800", " "), "fill2"),)


def _dots(value: float, top: float, table: tuple[int, ...]) -> int:
    if isnan(value) or top <= 0:
        return 0
    return table[max(1, min(4, round(value / top * 4)))]
