"""Tables: which columns fit, how wide they are, and one row as a line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw_tui.draw import measures
from llmgw_tui.draw.text import Line, Piece, Pieces, fit, pieces_width, said, width_of

GAP = 2
LOW = 3
"""Columns of this priority and beyond come in only where nothing else is cut short for them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Those with a high `priority` number go first when the room is short."""

    key: str
    title: str
    priority: int = 1
    align: str = "left"
    least: int = 0
    """Cells below which it is not shown any narrower, whatever is in it."""
    most: int = 32
    grow: int = 0
    """Its share of the cells that are left over."""
    want: int = 0
    """Cells that it gets before columns of low priority come in, when what it shows needs them."""
    bar: bool = False


@dataclass(frozen=True, slots=True)
class Gauge:
    """A cell that is a bar with words; as wide as its column."""

    share: float | None
    words: str


Cell = Pieces | Gauge


@dataclass(frozen=True, slots=True)
class Row:
    """One object in a table."""

    id: str
    cells: Mapping[str, Cell]
    order: Mapping[str, float | str] = field(default_factory=dict)
    """What a column sorts by; a column that is missing here is not known and sorts last."""
    words: str = ""
    """What a filter searches, beside the cells."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What `name=value` in a filter compares."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its place in the line."""

    column: Column
    x: int
    width: int


Layout = tuple[Placed, ...]


def cell_width(cell: Cell) -> int:
    """Return the cells that something wants."""
    if isinstance(cell, Gauge):
        return len(cell.words) + 6
    return pieces_width(cell)


def natural_widths(
    columns: Iterable[Column], rows: Iterable[Row], known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return each column's wanted width; never less than `known`, so that columns do not jump."""
    rows = tuple(rows)
    known = known or {}
    wanted: dict[str, int] = {}
    for column in columns:
        cells = (cell_width(row.cells.get(column.key, ())) for row in rows)
        size = max((width_of(column.title), column.least, *cells))
        wanted[column.key] = max(known.get(column.key, 0), min(size, column.most))
    return wanted


def lay_out(columns: Sequence[Column], natural: Mapping[str, int], width: int) -> Layout:
    """Choose the columns that fit into `width` cells and hand out what is left over."""
    kept = list(columns)
    while len(kept) > 1:
        last = max(reversed(kept), key=lambda column: column.priority)
        if _smallest(kept, natural, wanting=last.priority >= LOW) <= width:
            break
        kept.remove(last)
    sizes = {column.key: natural[column.key] for column in kept}
    spare = width - sum(sizes.values()) - GAP * (len(kept) - 1)
    if spare < 0:
        _narrow(kept, sizes, -spare)
    else:
        _widen(kept, sizes, spare)
    placed: list[Placed] = []
    x = 0
    for column in kept:
        size = min(sizes[column.key], max(0, width - x))
        placed.append(Placed(column, x, size))
        x += size + GAP
    return tuple(placed)


def _smallest(columns: Sequence[Column], natural: Mapping[str, int], *, wanting: bool) -> int:
    """Return the least width of a set of columns: only those that grow may be narrower."""
    total = GAP * (len(columns) - 1)
    for column in columns:
        least = max(column.least, column.want) if wanting else column.least
        total += min(natural[column.key], least) if column.grow else natural[column.key]
    return total


def _narrow(columns: Sequence[Column], sizes: dict[str, int], missing: int) -> None:
    """Take missing cells from the columns that grow: what they do not want first, then the rest."""
    for wanting in (True, False):
        for column in reversed(columns):
            if column.grow:
                least = max(column.least, column.want) if wanting else column.least
                taken = min(missing, max(0, sizes[column.key] - least))
                sizes[column.key] -= taken
                missing -= taken


def _widen(columns: Sequence[Column], sizes: dict[str, int], spare: int) -> None:
    """Give spare cells to the columns that grow, by weight; the last takes the remainder."""
    growing = [column for column in columns if column.grow]
    weight = sum(column.grow for column in growing)
    for column in growing:
        share = spare * column.grow // weight
        if column.bar:
            share = min(share, max(0, column.most - sizes[column.key]))
        sizes[column.key] += share
        spare -= share
        weight -= column.grow


def header(layout: Layout, width: int, sort: str = "", down: bool = False) -> Line:
    """Return the line of column titles; the sorted one carries an arrow."""
    pieces: list[Piece] = []
    for index, placed in enumerate(layout):
        title = placed.column.title
        sorted_here = placed.column.key == sort
        if sorted_here:
            title = f"{title}{'▼' if down else '▲'}"
        role = "sorted" if sorted_here else "head"
        if index:
            pieces.append(Piece(" " * GAP))
        pieces.extend(fit(said((title, role)), placed.width, placed.column.align))
    return Line(fit(pieces, width))


def compose(row: Row, layout: Layout, width: int, base: str = "panel") -> Line:
    """Return a row as a line of exactly `width` cells."""
    pieces: list[Piece] = []
    for index, placed in enumerate(layout):
        if index:
            pieces.append(Piece(" " * GAP))
        cell = row.cells.get(placed.column.key, ())
        if isinstance(cell, Gauge):
            pieces.extend(measures.gauge(cell.share, cell.words, placed.width))
        else:
            pieces.extend(fit(cell, placed.width, placed.column.align))
    return Line(fit(pieces, width), base)


def column_at(layout: Layout, x: int) -> str | None:
    """Return the key of the column at a cell of the line, for a click on its title."""
    for placed in layout:
        if placed.x <= x < placed.x + placed.width:
            return placed.column.key
    return None
