"""The base of every widget: lines come from a pure function, changed cells go to the screen."""

from collections.abc import Sequence

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from llmgw_tui.draw.frame import boxed, pad
from llmgw_tui.draw.text import Line, spans
from llmgw_tui.themes.paint import Paint


class Brush:
    """How everything is painted now; shared, so that a change of theme reaches every widget."""

    def __init__(self, paint: Paint) -> None:
        self.paint = paint
        self.framed = False
        """The panel has edges at its sides."""


class Drawn(Widget):
    """Shows the lines that `draw` returns.

    Invariant: `_shown` is what the terminal has, so the difference to it is all that is sent.
    """

    ground = "panel"
    """What lies under cells that `draw` leaves out."""

    def __init__(self, brush: Brush, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.brush = brush
        self._shown: list[Line] = []
        self._shown_width = -1

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines to show; missing ones are blank."""
        raise NotImplementedError

    def lines(self, width: int, height: int) -> list[Line]:
        """Return exactly `height` lines."""
        return pad(self.draw(width, height), width, height, self.ground)

    def repaint(self) -> None:
        """Draw anew and mark the cells that differ; nothing is sent when nothing does."""
        width, height = self.size
        if not self.is_mounted or not width or not height:
            return
        lines = self.lines(width, height)
        if width != self._shown_width or len(lines) != len(self._shown):
            self._keep(lines, width)
            self.refresh()
            return
        regions = [
            Region(x, y, length, 1)
            for y, (old, new) in enumerate(zip(self._shown, lines, strict=True))
            if old is not new
            for x, length in spans(old, new, width)
        ]
        if regions:
            self._keep(lines, width)
            self.refresh(*regions)

    def repaint_all(self) -> None:
        """Draw anew and send every cell: the theme changed."""
        self._shown_width = -1
        self.repaint()

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget as a strip."""
        width, height = self.size
        if width != self._shown_width or len(self._shown) != height:
            self._keep(self.lines(width, height), width)
        line = self._shown[y] if 0 <= y < len(self._shown) else Line(base=self.ground)
        return self.brush.paint.strip(line, width)

    def on_resize(self) -> None:
        """Draw for the new size, unless that was done while it was laid out."""
        self.repaint()

    def _keep(self, lines: list[Line], width: int) -> None:
        self._shown, self._shown_width = lines, width


_STALE = {"panel": "stale", "cursor": "stale-cursor"}


class Body(Drawn):
    """What fills a panel: it draws the panel's side edges where there is room for them."""

    stale = False
    """What is shown is old: it is dimmed."""

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the lines between the panel's edges."""
        inner = self.inner_width(width)
        lines = pad(self.draw(inner, height), inner, height)
        if self.stale:
            lines = [line._replace(base=_STALE.get(line.base, line.base)) for line in lines]
        return [boxed(line) for line in lines] if self.brush.framed else lines

    def inner_width(self, width: int) -> int:
        """Return the cells between the edges."""
        return width - 4 if self.brush.framed else width

    def inner_x(self, x: int) -> int:
        """Return a cell's place between the edges, for a click."""
        return x - 2 if self.brush.framed else x
