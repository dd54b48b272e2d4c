"""A form: lines to type into, the command line that does the same, and what is wrong so far."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.edit import Edit
from llmgw_tui.draw.keyform import Field, Read
from llmgw_tui.draw.text import Line, Piece, Pieces, fit, said, wrap

TITLE_CELLS = 14


class Form(Dialog):
    """Takes several texts. Enter does it once nothing is wrong.

    Args:
        title: what is asked.
        effects: what will happen, one line each.
        fields: the lines, with what they start with.
        read: returns what they say.
        agreed: called with the request's body.
        copy: called with the command line.
    """

    def __init__(
        self,
        title: str,
        effects: Sequence[str],
        fields: Sequence[Field],
        read: Callable[[Mapping[str, str]], Read],
        *,
        agreed: Callable[[Mapping[str, Any]], None],
        copy: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.title = title
        self._effects = tuple(effects)
        self._fields = tuple(fields)
        self._edits = [Edit(field.text, len(field.text)) for field in fields]
        self._read = read
        self._agreed = agreed
        self._copy = copy
        self._at = 0
        self._tried = False
        """Enter was pressed while something was wrong: from then on it is said."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return what its lines want."""
        wide = min(width - 2, 76)
        return wide, min(height - 2, len(self._lines(wide - 4)) + 2)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the form."""
        foot = said(
            ("Tab", "key"), " next  ", ("Enter", "key"), " do it  ", ("Ctrl+y", "key"),
            " copy  ", ("Esc", "key"), " no",
        )  # fmt: skip
        return frame.box(self.title, self._lines(width - 4)[: height - 2], foot, width)

    def press(self, key: str, character: str | None) -> None:
        """Type, go to another line, agree, copy, or leave."""
        steps = {"tab": 1, "down": 1, "shift+tab": -1, "up": -1}
        if key in steps:
            self._at = (self._at + steps[key]) % len(self._fields)
        elif key == "enter":
            self._try()
        elif key == "ctrl+y":
            self._copy(self._said().command)
        elif (edit := self._edits[self._at].typed(key, character)) is not None:
            self._edits[self._at] = edit
        else:
            super().press(key, character)

    def paste(self, text: str) -> None:
        """Put the text in."""
        self._edits[self._at] = self._edits[self._at].insert(text)

    def click(self, y: int) -> None:
        """Go to the clicked line."""
        at = y - 1 - self._first
        if 0 <= at < len(self._fields):
            self._at = at

    def scroll(self, step: int) -> None:
        """Go to the line before or behind."""
        self._at = max(0, min(self._at + step, len(self._fields) - 1))

    @property
    def _first(self) -> int:
        """Return how many lines stand before the first field."""
        return len(self._effects) + 1 if self._effects else 0

    def _said(self) -> Read:
        texts = zip(self._fields, self._edits, strict=True)
        return self._read({field.name: edit.text for field, edit in texts})

    def _try(self) -> None:
        read = self._said()
        self._tried = True
        if not read.problem:
            self.closed = True
            self._agreed(read.body)

    def _lines(self, width: int) -> list[Pieces]:
        read = self._said()
        lines: list[Pieces] = [said((effect, "dim")) for effect in self._effects]
        if lines:
            lines.append(())
        for index, (field, edit) in enumerate(zip(self._fields, self._edits, strict=True)):
            lines.append(self._line(field, edit, width - TITLE_CELLS, here=index == self._at))
        lines.append(())
        command = wrap(read.command, max(8, width - 2), 3)
        lines += [
            said(("$ " if not n else "  ", "faint"), (c, "command")) for n, c in enumerate(command)
        ]
        lines += [()] * (3 - len(command))  # so that nothing moves while one types
        lines.append(said((read.problem if self._tried else "", "warn")))
        return [fit(line, width) for line in lines]

    def _line(self, field: Field, edit: Edit, room: int, *, here: bool) -> Pieces:
        title = fit(said((field.title, "key" if here else "dim")), TITLE_CELLS)
        if here:
            # Of a text that is longer than its line the part around the caret shows.
            begin = max(0, edit.caret - room + 1)
            edit = Edit(edit.text[begin:], edit.caret - begin)
            hint = said(("  " + field.hint, "faint"))
            return (*title, *edit.pieces(), *hint)
        text = Piece(edit.text) if edit.text else Piece("-", "faint")
        return (*title, text)
