"""The table: rows stay outside, only those that show are composed, only changed cells are sent."""

from collections.abc import Callable, Iterable, Sequence

from llmgw_tui.draw import table
from llmgw_tui.draw.page import Section, as_line, rule
from llmgw_tui.draw.table import Column, Layout, Row
from llmgw_tui.draw.text import Line, Pieces, cut, fit, said
from llmgw_tui.widgets.drawn import Brush
from llmgw_tui.widgets.scrolled import Scrolled


class Grid(Scrolled):
    """A table with a cursor that follows an id, wherever its row goes.

    Args:
        brush: how it is painted.
        columns: all that may show; how many do depends on the room.
        on_sort: called with a column's key when its title is clicked.
    """

    head = 1

    def __init__(
        self,
        brush: Brush,
        columns: Sequence[Column],
        on_sort: Callable[[str], None],
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(brush, id=id)
        self.columns = tuple(columns)
        self.sort = ""
        self.down = False
        self.empty = ""
        """What to say when there is no row."""
        self.title = ""
        """Drawn as a rule above the table; empty: none. Whoever sets it sets `head` to 2."""
        self.notes: Pieces = ()
        self._on_sort = on_sort
        self._rows: Sequence[Row] = ()
        self._at: dict[str, int] = {}
        self._cursor: str | None = None
        self._natural: dict[str, int] = {}
        self._layout: Layout = ()
        self._layout_for: tuple[int, tuple[int, ...]] = (-1, ())
        self._composed: dict[str, tuple[Row, Layout, Line]] = {}

    @property
    def cursor(self) -> str | None:
        """Return the id under the cursor."""
        return self._cursor

    @property
    def row(self) -> Row | None:
        """Return the row under the cursor."""
        at = self._at.get(self._cursor or "")
        return None if at is None else self._rows[at]

    def show(self, rows: Sequence[Row], touched: Iterable[Row] | None = None) -> None:
        """Show these rows in this order.

        Args:
            rows: all of them.
            touched: those that are new; None: all are, and columns may become narrower again.
        """
        before = self._at.get(self._cursor or "", 0)
        self._rows = rows
        self._at = {row.id: index for index, row in enumerate(rows)}
        if self._cursor not in self._at:
            self._cursor = rows[min(before, len(rows) - 1)].id if rows else None
        known = None if touched is None else self._natural
        self._natural = table.natural_widths(
            self.columns, rows if touched is None else touched, known
        )
        if len(self._composed) > 4 * len(rows) + 64:
            self._composed.clear()
        self.top = max(0, min(self.top, self.count() - self.room()))
        self.repaint()

    def put_cursor(self, row_id: str) -> None:
        """Put the cursor on a row, if it is there."""
        if row_id in self._at:
            self._cursor = row_id
            self.reveal(self._at[row_id])
            self.changed()

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def move(self, step: int) -> None:
        """Move the cursor by rows."""
        if not self._rows:
            return
        at = self._at.get(self._cursor or "", 0)
        at = max(0, min(at + step, len(self._rows) - 1))
        self._cursor = self._rows[at].id
        self.reveal(at)
        self.changed()

    def page(self, direction: int) -> None:
        """Show the next screenful; the cursor goes with it and stays at its height."""
        step = direction * max(1, self.room() - 1)
        self.top = max(0, min(self.top + step, self.count() - self.room()))
        self.move(step)

    def point(self, y: int, x: int) -> bool:
        """Put the cursor on a clicked row, or sort by a clicked title."""
        if y < self.head:
            key = table.column_at(self._layout, x)
            if key is not None:
                self._on_sort(key)
            return False
        at = self.top + y - self.head
        if at >= len(self._rows):
            return False
        same = self._rows[at].id == self._cursor
        self._cursor = self._rows[at].id
        self.changed()
        return same

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the titles and the rows that show."""
        if self._natural:
            self._lay_out(width)
        lines = []
        if self.title:
            lines.append(as_line(rule(Section(self.title, (), self.notes), width), width))
        lines.append(table.header(self._layout, width, self.sort, self.down))
        room = height - len(lines)
        if not self._rows:
            return [*lines, Line(fit(said("  ", (cut(self.empty, width - 2), "dim")), width))]
        self.top = max(0, min(self.top, len(self._rows) - room))
        lines.extend(self._line(row, width) for row in self._rows[self.top : self.top + room])
        return lines

    def position(self) -> str:
        """Return how many rows there are and where the cursor is."""
        at = self._at.get(self._cursor or "")
        return f"{at + 1}/{len(self._rows)}" if at is not None else ""

    def _lay_out(self, width: int) -> None:
        wanted = (width, tuple(self._natural.values()))
        if wanted != self._layout_for:
            self._layout = table.lay_out(self.columns, self._natural, width)
            self._layout_for = wanted

    def _line(self, row: Row, width: int) -> Line:
        known = self._composed.get(row.id)
        if known is None or known[0] is not row or known[1] is not self._layout:
            line = table.compose(row, self._layout, width)
            self._composed[row.id] = known = (row, self._layout, line)
        return known[2]._replace(base="cursor") if row.id == self._cursor else known[2]
