"""Readings as braille, two columns and four levels a cell, for the console and for commands.

A column is filled up to the mean of the readings that it stands for, with a dot at the highest. A
column in which nothing was measured stays blank; zero is the lowest dot, so the two differ.
"""

from collections.abc import Sequence

Column = tuple[float, float] | None
"""Mean and highest of the readings of one column; None: nothing was measured."""

_BLANK = 0x2800
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)
"""The dots of a cell, from the lowest up."""
_LEVELS = 4
_ASCII = " .-=#"


def columns(values: Sequence[float | None], last: int, count: int) -> list[Column]:
    """Return readings put together into `count` columns.

    Which readings share a column depends on their numbers alone: as time passes a chart moves by
    whole columns, and what was drawn stays as it was.

    Args:
        values: oldest first, all of the time that the columns stand for.
        last: the number of the last reading, counted in steps from any fixed moment.
        count: how many columns.
    """
    points, first = len(values), last - len(values) + 1
    if not points or count <= 0:
        return [None] * max(0, count)
    newest = -(-(last + 1) * count // points) - 1
    found: list[Column] = []
    for column in range(newest - count + 1, newest + 1):
        start = column * points // count
        end = max(start + 1, (column + 1) * points // count)
        there = [
            value
            for value in values[max(0, start - first) : max(0, end - first)]
            if value is not None
        ]
        found.append((sum(there) / len(there), max(there)) if there else None)
    return found


def rows(filled: Sequence[Column], height: int, top: float) -> list[str]:
    """Return columns as that many rows of cells, the highest first.

    Args:
        filled: two columns a cell; an odd last one gets a cell of its own.
        height: rows.
        top: the value of a full column; what is higher is drawn as that.
    """
    dots = [_dots(column, height, top) for column in filled]
    if len(dots) % 2:
        dots.append(0)
    return [
        "".join(
            _cell(left >> row * _LEVELS & 0xF, right >> row * _LEVELS & 0xF)
            for left, right in zip(dots[::2], dots[1::2], strict=True)
        )
        for row in reversed(range(height))
    ]


def to_ascii(character: str) -> str:
    """Return a cell of braille as a character of about the same height."""
    code = ord(character) - _BLANK
    dots = max((code & sum(_LEFT)).bit_count(), (code & sum(_RIGHT)).bit_count())
    return _ASCII[min(_LEVELS, dots)]


def is_braille(character: str) -> bool:
    """Say whether a character is a cell of braille."""
    return _BLANK <= ord(character) < _BLANK + 0x100


def _dots(column: Column, height: int, top: float) -> int:
    """Return the dots of one column as bits, the lowest first."""
    if column is None:
        return 0
    mean, most = (_level(value, height, top) for value in column)
    return (1 << mean) - 1 | 1 << (most - 1)


def _level(value: float, height: int, top: float) -> int:
    full = height * _LEVELS
    ratio = min(1.0, max(0.0, value / top)) if top > 0 else 0.0
    return max(1, round(ratio * full))


def _cell(left: int, right: int) -> str:
    bits = sum(dot for level, dot in enumerate(_LEFT) if left >> level & 1)
    bits += sum(dot for level, dot in enumerate(_RIGHT) if right >> level & 1)
    return chr(_BLANK + bits) if bits else " "
