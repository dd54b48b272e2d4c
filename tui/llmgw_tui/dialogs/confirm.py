"""The question before anything that changes something."""

from collections.abc import Callable, Sequence

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.edit import Edit
from llmgw_tui.draw.text import Line, Pieces, fit, said, wrap


class Confirm(Dialog):
    """Says what will happen and asks for a name before it does.

    Args:
        title: what is asked.
        effects: what will happen, one line each.
        command: the equal command line; `Ctrl+y` copies it.
        name: what has to be typed; empty: Enter is enough.
        agreed: called once it is.
        copy: called with the command line.
    """

    def __init__(
        self,
        title: str,
        effects: Sequence[str],
        command: str,
        *,
        name: str = "",
        agreed: Callable[[], None],
        copy: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.title = title
        self._effects = tuple(effects)
        self._command = command
        self._name = name
        self._agreed = agreed
        self._copy = copy
        self._edit = Edit()

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return what its lines want."""
        wide = min(width - 2, 72)
        return wide, min(height - 2, len(self._lines(wide - 4)) + 2)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the question."""
        foot = said(
            ("Enter", "key"), " do it  ", ("Ctrl+y", "key"), " copy  ", ("Esc", "key"), " no"
        )
        return frame.box(self.title, self._lines(width - 4)[: height - 2], foot, width)

    def press(self, key: str, character: str | None) -> None:
        """Type the name, agree, copy, or leave."""
        if key == "enter":
            if self._edit.text == self._name:
                self.closed = True
                self._agreed()
        elif key == "ctrl+y":
            self._copy(self._command)
        elif (edit := self._edit.typed(key, character)) is not None:
            self._edit = edit
        else:
            super().press(key, character)

    def paste(self, text: str) -> None:
        """Put the text in."""
        self._edit = self._edit.insert(text)

    def _lines(self, width: int) -> list[Pieces]:
        lines = [said(line) for effect in self._effects for line in wrap(effect, width)]
        lines += [(), said(("$ ", "faint"), (self._command, "command"))]
        if self._name:
            asked = said("type ", (self._name, "strong"), " to go on: ")
            lines += [(), (*asked, *self._edit.pieces())]
        return [fit(line, width) for line in lines]
