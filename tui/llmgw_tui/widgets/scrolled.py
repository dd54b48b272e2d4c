"""What lists, pages and logs share: a cursor or none, a first line, and how they move."""

from textual import events
from textual.message import Message

from llmgw_tui.widgets.drawn import Body


class Scrolled(Body):
    """More lines than fit. `top` is the first that shows.

    The subclass says how many there are (`count`) and what moving means.
    """

    top = 0
    head = 0
    """Lines at the top that do not scroll."""

    class Moved(Message):
        """The cursor or the first line changed."""

    class Opened(Message):
        """What is under the cursor was chosen with the mouse."""

    def count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def move(self, step: int) -> None:
        """Move by lines."""
        self.scroll_by(step)

    def point(self, y: int, x: int) -> bool:
        """Put the cursor where somebody clicked; say whether it was there already."""
        del y, x
        return False

    def room(self) -> int:
        """Return how many lines fit."""
        return max(1, self.size.height - self.head)

    def page(self, direction: int) -> None:
        """Move by a screenful."""
        self.move(direction * max(1, self.room() - 1))

    def to_start(self) -> None:
        """Go to the first line."""
        self.move(-self.count() - 1)

    def to_end(self) -> None:
        """Go to the last line."""
        self.move(self.count() + 1)

    def scroll_by(self, step: int) -> None:
        """Move the first line, within what there is."""
        self.top = max(0, min(self.top + step, self.count() - self.room()))
        self.changed()

    def reveal(self, index: int) -> None:
        """Scroll as little as possible so that a line shows."""
        if index < self.top:
            self.top = index
        elif index >= self.top + self.room():
            self.top = index - self.room() + 1
        self.top = max(0, min(self.top, self.count() - self.room()))

    def changed(self) -> None:
        """Repaint and tell the frame."""
        self.repaint()
        self.post_message(self.Moved())

    def position(self) -> str:
        """Return which part shows, for the panel's edge."""
        count = self.count()
        if count <= self.room():
            return ""
        return f"{self.top + 1}-{min(count, self.top + self.room())} of {count}"

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll with the wheel."""
        event.stop()
        self.scroll_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll with the wheel."""
        event.stop()
        self.scroll_by(-3)

    def on_click(self, event: events.Click) -> None:
        """Choose with the first click, open with the second."""
        event.stop()
        if self.point(int(event.y), self.inner_x(int(event.x))):
            self.post_message(self.Opened())
