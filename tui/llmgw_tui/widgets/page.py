"""A page of facts with spots that lead somewhere."""

from collections.abc import Callable, Sequence

from llmgw_tui.draw.page import PageLine, Spot, as_line
from llmgw_tui.draw.places import Place
from llmgw_tui.draw.text import Line
from llmgw_tui.widgets.drawn import Brush
from llmgw_tui.widgets.scrolled import Scrolled

Build = Callable[[int, int], Sequence[PageLine]]
"""Returns a page for a width and a height."""


class Page(Scrolled):
    """Shows what `build` returns. The cursor rests on spots and stays on the same target."""

    def __init__(self, brush: Brush, build: Build, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(brush, id=id)
        self._build = build
        self._lines: Sequence[PageLine] = ()
        self._chosen: tuple[int, Spot] | None = None

    @property
    def target(self) -> Place | None:
        """Return where the chosen spot leads."""
        return self._chosen[1].target if self._chosen else None

    @property
    def built(self) -> Sequence[PageLine]:
        """Return the page as it is built."""
        return self._lines

    def show(self, lines: range) -> None:
        """Scroll as little as possible so that some lines show, the first of them in any case."""
        if lines:
            self.reveal(lines[-1])
            self.reveal(lines[0])
            self.changed()

    def rebuild(self) -> None:
        """Build the page anew and send what changed of it."""
        width, height = self.size
        if width and height:
            self._take(self._build(self.inner_width(width), height))
        self.repaint()

    def reset(self) -> None:
        """Go back to the top: another thing is shown."""
        self.top = 0
        self._chosen = None

    def count(self) -> int:
        """Return how many lines the page has."""
        return len(self._lines)

    def move(self, step: int) -> None:
        """Move to the next spot of the same column; scroll where there is none in reach."""
        spots = self._spots()
        following = [spot for spot in spots if self._is_beyond(spot, step)]
        if not following:
            self.scroll_by(step)
            return
        far = min(abs(step), len(following)) - 1
        self._choose(sorted(following, key=lambda one: abs(one[0] - self._line()))[far])

    def aside(self, step: int) -> None:
        """Move to the nearest spot of the other column."""
        if self._chosen is None:
            return
        x = self._chosen[1].x
        others = [one for one in self._spots() if (one[1].x > x) == (step > 0) and one[1].x != x]
        if others:
            self._choose(min(others, key=lambda one: abs(one[0] - self._line())))

    def to_start(self) -> None:
        """Go to the top, and to the first spot."""
        self.top = 0
        spots = self._spots()
        self._chosen = spots[0] if spots else None
        self.changed()

    def to_end(self) -> None:
        """Go to the last line."""
        self.scroll_by(self.count())

    def page(self, direction: int) -> None:
        """Scroll by a screenful; the cursor stays where it is."""
        self.scroll_by(direction * max(1, self.room() - 1))

    def point(self, y: int, x: int) -> bool:
        """Choose the clicked spot."""
        for line, spot in self._spots():
            if line == self.top + y and spot.x <= x < spot.x + (spot.width or self.size.width):
                same = (line, spot) == self._chosen
                self._chosen = (line, spot)
                self.changed()
                return same
        return False

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the part that shows."""
        if not self._lines:
            self._take(self._build(width, height))
        chosen_line, spot = self._chosen or (-1, None)
        return [
            as_line(line, width, spot if index == chosen_line else None)
            for index, line in enumerate(self._lines[self.top : self.top + height], self.top)
        ]

    def on_resize(self) -> None:
        """Build for the new size."""
        super().on_resize()
        self._take(self._build(self.inner_width(self.size.width), self.size.height))

    def _take(self, lines: Sequence[PageLine]) -> None:
        self._lines = lines
        spots = self._spots()
        if self._chosen is not None:
            same = [one for one in spots if one[1].target == self._chosen[1].target]
            self._chosen = same[0] if same else None
        if self._chosen is None and spots:
            self._chosen = spots[0]
        self.top = max(0, min(self.top, self.count() - self.room()))

    def _spots(self) -> list[tuple[int, Spot]]:
        return [(index, spot) for index, line in enumerate(self._lines) for spot in line.spots]

    def _line(self) -> int:
        return self._chosen[0] if self._chosen else self.top

    def _is_beyond(self, one: tuple[int, Spot], step: int) -> bool:
        """Say whether a spot lies that way, in this column, and near enough to jump to."""
        if self._chosen is None:
            return True
        if one[1].x != self._chosen[1].x:
            return False
        distance = (one[0] - self._chosen[0]) * (1 if step > 0 else -1)
        return 0 < distance <= max(self.room(), abs(step))

    def _choose(self, one: tuple[int, Spot]) -> None:
        self._chosen = one
        first = self._spots()[0]
        if one == first:
            self.top = 0
        self.reveal(one[0])
        self.changed()
