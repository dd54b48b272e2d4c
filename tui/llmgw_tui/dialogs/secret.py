"""Something that is shown this once: a new key."""

from collections.abc import Callable, Sequence

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.text import Line, Pieces, fit, said


class ShownOnce(Dialog):
    """Shows a secret until it is left; it is kept nowhere else.

    Args:
        title: what it is.
        secret: the text.
        words: what to do with it, one line each.
        copy: called with the secret.
    """

    def __init__(
        self, title: str, secret: str, words: Sequence[str], copy: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.title = title
        self._secret = secret
        self._words = tuple(words)
        self._copy = copy

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return what its lines want."""
        wide = min(width - 2, 76)
        return wide, min(height - 2, len(self._lines(wide - 4)) + 2)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the secret, whole: in several lines where it has to be."""
        foot = said(("y", "key"), " copy  ", ("Esc", "key"), " done")
        return frame.box(self.title, self._lines(width - 4)[: height - 2], foot, width)

    def press(self, key: str, character: str | None) -> None:
        """Copy, or leave; no other key ends it: it can't be had again."""
        if key in {"y", "ctrl+y"}:
            self._copy(self._secret)
        else:
            super().press(key, character)

    def _lines(self, width: int) -> list[Pieces]:
        cut = [self._secret[at : at + width] for at in range(0, len(self._secret), width)]
        lines: list[Pieces] = [said((part, "strong")) for part in cut]
        lines += [(), *(said((words, "dim")) for words in self._words)]
        return [fit(line, width) for line in lines]
