"""Lines as values: pieces of text with a role each. How a role looks is the theme's business."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from unicodedata import category

from rich.cells import cell_len

ELLIPSIS = "…"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_SILENT = frozenset({"Cc", "Cf"})
"""Categories of characters that print nothing: controls, and what turns or joins others."""
_UNKNOWN = "\ufffd"
_GAP = 6
"""Cells that are cheaper to send again than to jump over."""


class Piece(NamedTuple):
    """A run of text in one role."""

    text: str
    role: str = "text"


Pieces = tuple[Piece, ...]


class Line(NamedTuple):
    """One line of a screen. `base` names what lies under it: a panel, a bar, the cursor."""

    pieces: Pieces = ()
    base: str = "panel"

    @property
    def text(self) -> str:
        """Return the bare text."""
        return "".join(piece.text for piece in self.pieces)


def width_of(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def pieces_width(pieces: Iterable[Piece]) -> int:
    """Return how many cells pieces take together."""
    return sum(width_of(piece.text) for piece in pieces)


def said(*parts: str | Piece | tuple[str, str]) -> Pieces:
    """Return pieces from strings (role `text`), pieces and (text, role) pairs; no empty ones."""
    made = (Piece(part) if isinstance(part, str) else Piece(*part) for part in parts)
    return tuple(piece for piece in made if piece.text)


def clean(text: str) -> str:
    """Return foreign text in one line without anything that could steer a terminal.

    Tabs and line ends become spaces; what this Python does not know is drawn as unknown.
    """
    if text.isprintable():
        return text
    shown = _ESCAPES.sub("", text).replace("\r\n", " ")
    return "".join(map(_shown, shown)).expandtabs(4)


def _shown(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    if character.isspace():
        return " "
    return "" if category(character) in _SILENT else _UNKNOWN


def _head(text: str, width: int) -> str:
    """Return the first characters of a text that fit into `width` cells."""
    kept = text[:width]
    while width_of(kept) > width:
        kept = kept[:-1]
    return kept


def cut(text: str, width: int) -> str:
    """Return a text of at most `width` cells; what is cut off shows as an ellipsis."""
    if width_of(text) <= width:
        return text
    return _head(text, width - 1) + ELLIPSIS if width > 0 else ""


def crop(pieces: Sequence[Piece], width: int) -> Pieces:
    """Return pieces of at most `width` cells; what is cut off shows as an ellipsis."""
    if pieces_width(pieces) <= width:
        return tuple(pieces)
    if width <= 0:
        return ()
    kept: list[Piece] = []
    left = width - 1
    for piece in pieces:
        size = width_of(piece.text)
        if size > left:
            kept.append(Piece(_head(piece.text, left) + ELLIPSIS, piece.role))
            break
        kept.append(piece)
        left -= size
    return tuple(kept)


def fit(pieces: Sequence[Piece], width: int, align: str = "left") -> Pieces:
    """Return pieces of exactly `width` cells, cut or filled up."""
    kept = crop(pieces, width)
    missing = width - pieces_width(kept)
    if missing <= 0:
        return kept
    blank = Piece(" " * missing)
    return (blank, *kept) if align == "right" else (*kept, blank)


def spread(left: Sequence[Piece], right: Sequence[Piece], width: int) -> Pieces:
    """Return `left` at the left edge and `right` at the right one; the right one gives way last."""
    kept = crop(right, width)
    room = width - pieces_width(kept)
    gap = 1 if kept and room > 1 else 0
    return (*fit(left, room - gap), *said(" " * gap), *kept)


def wrap(text: str, width: int, most: int = 8) -> tuple[str, ...]:
    """Return a text in lines of at most `width` cells, broken at spaces; at most `most` of them."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        longer = f"{current} {word}" if current else word
        if width_of(longer) <= width:
            current = longer
            continue
        if current:
            lines.append(current)
        current = word
    if current:
        lines.append(current)
    if len(lines) > most:
        rest = " ".join(lines[most - 1 :])
        lines = [*lines[: most - 1], rest]
    return tuple(cut(line, width) for line in lines)


def _cells(line: Line, width: int) -> list[tuple[str, str]]:
    """Return one entry a cell; both halves of a wide character differ together."""
    cells: list[tuple[str, str]] = []
    for text, role in line.pieces:
        if text.isascii():
            cells.extend((character, role) for character in text)
            continue
        for character in text:
            size = cell_len(character)
            if size == 0 and cells:
                cells[-1] = (cells[-1][0] + character, cells[-1][1])
            elif size:
                cells.append((character, role))
                cells.extend([(f"\0{character}", role)] * (size - 1))
    cells.extend([(" ", "")] * (width - len(cells)))
    return cells[:width]


def spans(old: Line, new: Line, width: int) -> tuple[tuple[int, int], ...]:
    """Return (start, length) of what has to be painted to make `old` into `new`."""
    if old == new:
        return ()
    if old.base != new.base:
        return ((0, width),)
    found: list[list[int]] = []
    for x, (before, after) in enumerate(zip(_cells(old, width), _cells(new, width), strict=True)):
        if before == after:
            continue
        if found and x - found[-1][1] < _GAP:
            found[-1][1] = x + 1
        else:
            found.append([x, x + 1])
    return tuple((start, end - start) for start, end in found)
