"""Dialogs as objects without a widget: they draw lines and take keys; one widget shows them all."""

from collections.abc import Sequence

from llmgw_tui.draw.text import Line


class Dialog:
    """Something that wants an answer. `closed` is set when it got one or was left."""

    title = ""

    def __init__(self) -> None:
        self.closed = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the cells it wants of a screen of that size."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return its lines, frame included."""
        raise NotImplementedError

    def press(self, key: str, character: str | None) -> None:
        """Take a key; Escape leaves."""
        del character
        if key in {"escape", "ctrl+c"}:
            self.closed = True

    def paste(self, text: str) -> None:
        """Take pasted text."""

    def click(self, y: int) -> None:
        """Take a click on one of its lines."""

    def scroll(self, step: int) -> None:
        """Take the wheel."""
