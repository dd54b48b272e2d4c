"""Pages of facts: sections of lines, side by side where there is room."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llmgw_tui.draw.places import Place
from llmgw_tui.draw.text import Line, Piece, Pieces, crop, fit, pieces_width, said, width_of, wrap

GUTTER = 3
"""Cells between two columns of sections."""
SPACIOUS = 22
"""Lines from which sections are set apart by a blank line."""


class Spot(NamedTuple):
    """A part of a line that leads somewhere; `width` 0 is the whole line."""

    target: Place
    x: int = 0
    width: int = 0


class PageLine(NamedTuple):
    """One line of a page, and the spots on it that the cursor can rest on."""

    pieces: Pieces = ()
    spots: tuple[Spot, ...] = ()


class Section(NamedTuple):
    """A titled group of lines; `notes` stand at the right of the title."""

    title: str
    lines: tuple[PageLine, ...]
    notes: Pieces = ()


BLANK = PageLine()


def linked(pieces: Iterable[Piece], target: Place) -> PageLine:
    """Return a line that leads somewhere as a whole."""
    return PageLine(tuple(pieces), (Spot(target),))


def fact(name: str, *value: str | Piece | tuple[str, str], width: int = 11) -> PageLine:
    """Return `name  value`; the name takes `width` cells."""
    return PageLine((*fit(said((name, "dim")), width), *said("  ", *value)))


def facts(
    name: str, text: str, room: int, *, role: str = "text", width: int = 11
) -> list[PageLine]:
    """Return a fact whose text may need several lines of a page that is `room` cells wide."""
    lines = wrap(text, max(8, room - width - 2)) or ("-",)
    first = fact(name, (lines[0], role), width=width)
    return [first, *(fact("", (line, role), width=width) for line in lines[1:])]


def rule(section: Section, width: int) -> PageLine:
    """Return a section's title as a rule across the page."""
    notes = crop(section.notes, max(0, width - width_of(section.title) - 4))
    used = width_of(section.title) + 1 + (pieces_width(notes) + 1 if notes else 0)
    dashes = said((" " + "─" * max(0, width - used), "faint"))
    return PageLine(
        fit(
            (*said((section.title, "title")), *dashes, *(said(" ", *notes) if notes else ())), width
        )
    )


def stack(sections: Iterable[Section | None], width: int, gap: int = 1) -> list[PageLine]:
    """Return sections one below the other, `gap` blank lines between, all `width` cells wide."""
    lines: list[PageLine] = []
    for section in sections:
        if section is None:
            continue
        if lines:
            lines.extend([BLANK] * gap)
        lines.append(rule(section, width))
        lines.extend(_fitted(line, width) for line in section.lines)
    return lines


def _fitted(line: PageLine, width: int) -> PageLine:
    spots = tuple(spot._replace(width=spot.width or width) for spot in line.spots)
    return PageLine(fit(line.pieces, width), spots)


def beside(
    left: Sequence[PageLine], right: Sequence[PageLine], widths: tuple[int, int]
) -> list[PageLine]:
    """Return two stacks side by side."""
    start = widths[0] + GUTTER
    lines: list[PageLine] = []
    for index in range(max(len(left), len(right))):
        here = _fitted(left[index] if index < len(left) else BLANK, widths[0])
        there = _fitted(right[index] if index < len(right) else BLANK, widths[1])
        moved = tuple(spot._replace(x=spot.x + start) for spot in there.spots)
        pieces = (*here.pieces, Piece(" " * GUTTER), *there.pieces)
        lines.append(PageLine(pieces, (*here.spots, *moved)))
    return lines


def gap_for(height: int) -> int:
    """Return the blank lines between sections of a page that tall."""
    return 1 if height >= SPACIOUS else 0


def halves(width: int) -> tuple[int, int]:
    """Return the widths of two columns of a page."""
    left = (width - GUTTER) // 2
    return left, width - GUTTER - left


def marked(pieces: Pieces, x: int, width: int, base: str) -> Pieces:
    """Return pieces with the cells from `x` on put on another ground."""
    done: list[Piece] = []
    at = 0
    for text, role in pieces:
        size = width_of(text)
        if at + size <= x or at >= x + width or "@" in role:
            done.append(Piece(text, role))
        elif text.isascii() or (at >= x and at + size <= x + width):
            start, end = max(0, x - at), min(size, x + width - at)
            parts = (
                (text[:start], text[start:end], text[end:]) if text.isascii() else ("", text, "")
            )
            done.extend(said((parts[0], role), (parts[1], f"{role}@{base}"), (parts[2], role)))
        else:
            done.append(Piece(text, f"{role}@{base}"))
        at += size
    return tuple(done)


def as_line(line: PageLine, width: int, chosen: Spot | None = None, base: str = "panel") -> Line:
    """Return a page's line as a line of the screen, with the chosen spot on the cursor's ground."""
    pieces = fit(line.pieces, width)
    if chosen is not None:
        pieces = marked(pieces, chosen.x, chosen.width or width, "cursor")
    return Line(pieces, base)
