"""The frame around every screen: title bar, side bar, panel edges, key bar."""

from collections.abc import Sequence
from typing import NamedTuple

from llmgw_tui.draw.text import (
    Line,
    Piece,
    Pieces,
    clean,
    cut,
    fit,
    pieces_width,
    said,
    spread,
    width_of,
)


class Entry(NamedTuple):
    """One screen in the side bar. `note`: how many it shows, `alarm`: the kind of the worst."""

    key: str
    title: str
    note: str = ""
    alarm: str = ""
    here: bool = False


class Shortcut(NamedTuple):
    """One key of the key bar: what to press, what it does, the action behind it."""

    shown: str
    words: str
    action: str
    kept: bool = False
    """It shows however little room there is; others make room for it."""

    @property
    def width(self) -> int:
        """Return the cells that it takes."""
        return width_of(self.shown) + 1 + width_of(self.words)


def title_line(crumbs: Sequence[str], health: Pieces, link: Pieces, clock: str, width: int) -> Line:
    """Return the title bar: where one is, how the fleet is, how fresh this is, and the time."""
    right = said("  ", *link, ("  " + clock if clock else "", "dim"), " ")
    room = width - pieces_width(right)
    left: list[Piece] = [Piece(" ")]
    for index, crumb in enumerate(crumbs):
        if index:
            left.append(Piece(" ▸ ", "faint"))
        last = index == len(crumbs) - 1
        left.append(Piece(crumb, "here" if last else "dim"))
    gap = room - pieces_width(left) - pieces_width(health)
    if health and gap >= 2:
        left.extend(said(" " * gap, *health))
    return Line((*fit(left, room), *right), "bar")


def side_lines(
    entries: Sequence[Entry], legend: Sequence[Pieces], width: int, height: int
) -> list[Line]:
    """Return the side bar: the screens by number, and at the foot what the glyphs mean."""
    lines = [Line(fit(said(), width), "side")]
    for entry in entries:
        role = "here" if entry.here else "text"
        mark = said((entry.note, entry.alarm or "dim"))
        left = said(" ", (entry.key, "key"), " ", (entry.title, role))
        base = "chosen" if entry.here else "side"
        lines.append(Line((*spread(left, mark, width - 1), Piece(" ")), base))
    if height >= len(lines) + len(legend) + 3:
        blank = Line(fit((), width), "side")
        lines.extend([blank] * (height - len(lines) - len(legend) - 1))
        lines.extend(Line(fit(said("  ", *pieces), width), "side") for pieces in legend)
    return pad(lines, width, height, "side")


def pad(lines: Sequence[Line], width: int, height: int, base: str = "panel") -> list[Line]:
    """Return exactly `height` lines."""
    shown = list(lines[:height])
    shown.extend([Line(fit((), width), base)] * (height - len(shown)))
    return shown


def head_line(title: str, notes: Pieces, count: str, width: int, framed: bool) -> Line:
    """Return the panel's upper edge: title, what is filtered and sorted, how many are shown."""
    start, end = ("╭─ ", " ─╮") if framed else ("── ", " ──")
    right = said(" ", (count, "dim"), (end, "frame")) if count else said((end[1:], "frame"))
    left: list[Piece] = [Piece(start, "frame"), Piece(clean(title), "title")]
    if notes:
        left.append(Piece(" ─ ", "frame"))
        left.extend(piece._replace(text=clean(piece.text)) for piece in notes)
    left.append(Piece(" ", "frame"))
    room = width - pieces_width(right)
    dashes = Piece("─" * max(0, room - pieces_width(left)), "frame")
    return Line((*fit((*left, dashes), room), *right))


def foot_line(command: str, note: Pieces, width: int, framed: bool) -> Line:
    """Return the panel's lower edge: the command line that shows the same, or a passing note."""
    start, end = ("╰─ ", "─╯") if framed else (" ", "")
    inner = note or said(("$ ", "faint"), (cut(clean(command), max(0, width - 8)), "command"))
    left: list[Piece] = [Piece(start, "frame"), *inner, Piece(" ", "frame")]
    room = width - len(end)
    fill = "─" if framed else " "
    dashes = Piece(fill * max(0, room - pieces_width(left)), "frame")
    return Line((*fit((*left, dashes), room), *said((end, "frame"))))


def boxed(line: Line) -> Line:
    """Return a line between the panel's side edges; it has to be two cells narrower each side."""
    edge = "frame"
    return Line((Piece("│ ", edge), *line.pieces, Piece(" │", edge)), line.base)


def key_bar(
    shortcuts: Sequence[Shortcut], width: int
) -> tuple[Line, tuple[tuple[int, int, str], ...]]:
    """Return the key bar and, for clicks, (start, end, action) of each key that fits in it."""
    room = width - 1 - sum(one.width + 2 for one in shortcuts if one.kept) + 2
    pieces: list[Piece] = [Piece(" ")]
    areas: list[tuple[int, int, str]] = []
    x = 1
    for shortcut in shortcuts:
        if not shortcut.kept:
            if shortcut.width + 2 > room:
                continue
            room -= shortcut.width + 2
        if x + shortcut.width > width:
            continue
        gap = "  " if areas else ""
        pieces.extend(said(gap, (shortcut.shown, "key"), " ", (shortcut.words, "dim")))
        areas.append((x, x + shortcut.width, shortcut.action))
        x += shortcut.width + 2
    return Line(fit(pieces, width), "bar"), tuple(areas)


def box(title: str, body: Sequence[Pieces], foot: Pieces, width: int) -> list[Line]:
    """Return a dialog: a frame of `width` cells around its lines."""
    inner = width - 4
    top = said(("╭─ ", "edge"), (title, "title"), " ")
    edge = "─" * max(0, width - pieces_width(top) - 1)
    lines = [Line(fit((*top, Piece(edge, "edge"), Piece("╮", "edge")), width), "dialog")]
    for pieces in body:
        row = (Piece("│ ", "edge"), *fit(pieces, inner), Piece(" │", "edge"))
        lines.append(Line(row, "dialog"))
    left = said(("╰─ ", "edge"), *foot, " ")
    edge = "─" * max(0, width - pieces_width(left) - 1)
    lines.append(Line(fit((*left, Piece(edge, "edge"), Piece("╯", "edge")), width), "dialog"))
    return lines
