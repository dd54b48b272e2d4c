"""How many cells of a terminal a text takes: East Asian and emoji characters take two."""

from unicodedata import category, east_asian_width

_NONE = frozenset({"Mn", "Me", "Cf"})
"""Categories of characters that are drawn over the one before them."""


def width(text: str) -> int:
    """Return the cells that a printable text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut(text: str, most: int) -> str:
    """Return the beginning of a text that fits into so many cells."""
    if text.isascii():
        return text[:most]
    taken = 0
    for at, character in enumerate(text):
        taken += _cells(character)
        if taken > most:
            return text[:at]
    return text


def padded(text: str, cells: int, *, right: bool = False) -> str:
    """Return a text filled up with blanks to so many cells, at its left if it stands right."""
    blanks = " " * (cells - width(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def _cells(character: str) -> int:
    if category(character) in _NONE:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
