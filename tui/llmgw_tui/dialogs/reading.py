"""Text to read: the help."""

from collections.abc import Callable, Sequence

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.text import Line, Pieces, said


class Reading(Dialog):
    """Text to read and scroll: the help."""

    def __init__(self, title: str, body: Callable[[int], Sequence[Pieces]]) -> None:
        super().__init__()
        self.title = title
        self._body = body
        self._top = 0
        self._most = 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return as much as the text wants, within the screen."""
        wide = min(width - 2, 92)
        return wide, min(height - 2, len(self._body(wide - 4)) + 2)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the part that shows."""
        body = self._body(width - 4)
        self._most = max(0, len(body) - (height - 2))
        self._top = min(self._top, self._most)
        shown = list(body[self._top : self._top + height - 2])
        shown += [()] * (height - 2 - len(shown))
        more = f"{self._top + 1}-{self._top + height - 2} of {len(body)}  " if self._most else ""
        return frame.box(self.title, shown, said((more, "dim"), ("Esc", "key"), " close"), width)

    def press(self, key: str, character: str | None) -> None:
        """Scroll, or leave."""
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "space": 10}
        if key in steps:
            self.scroll(steps[key])
        elif key in {"question_mark", "q", "enter", "f1"}:
            self.closed = True
        else:
            super().press(key, character)

    def scroll(self, step: int) -> None:
        """Move the text."""
        self._top = max(0, min(self._top + step, self._most))
