"""Picking one of many by typing a part of it."""

from collections.abc import Callable, Sequence

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.edit import Edit
from llmgw_tui.draw.text import Line, Piece, Pieces, clean, fit, said


class Choice:
    """One thing to pick: what it is called, what it is, what happens then."""

    __slots__ = ("hint", "label", "run")

    def __init__(self, label: str, hint: str, run: Callable[[], None]) -> None:
        self.label = label
        self.hint = hint
        self.run = run


class Pick(Dialog):
    """A line to type and what fits it. Enter picks.

    Args:
        title: what is picked.
        find: returns what fits a text, best first.
    """

    def __init__(self, title: str, find: Callable[[str], Sequence[Choice]]) -> None:
        super().__init__()
        self.title = title
        self._find = find
        self._edit = Edit()
        self._found = list(find(""))
        self._at = 0
        self._room = 1

    @property
    def found(self) -> Sequence[Choice]:
        """Return what fits what was typed."""
        return self._found

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the same size whatever fits, so that the frame does not jump."""
        return min(width - 2, 72), min(height - 2, 18)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the input and the part of the list around the chosen one."""
        inner, self._room = width - 4, max(1, height - 4)
        top = max(0, min(self._at - self._room // 2, len(self._found) - self._room))
        rows: list[Pieces] = [(Piece("> ", "key"), *self._edit.pieces()), ()]
        for index, choice in enumerate(self._found[top : top + self._room], top):
            told = (clean(choice.label), "strong"), "  ", (clean(choice.hint), "dim")
            label = fit(said(" ", *told), inner)
            here = index == self._at
            rows.append(tuple(Piece(t, f"{r}@cursor") for t, r in label) if here else label)
        if not self._found:
            rows.append(said((" nothing fits", "dim")))
        rows += [()] * (height - 2 - len(rows))
        foot = said(("Enter", "key"), " pick  ", ("Esc", "key"), " leave")
        return frame.box(self.title, rows[: height - 2], foot, width)

    def press(self, key: str, character: str | None) -> None:
        """Move, type, pick or leave."""
        steps = {"up": -1, "ctrl+p": -1, "down": 1, "ctrl+n": 1, "tab": 1}
        far = {"pageup": -self._room, "pagedown": self._room}
        if key in steps or key in far:
            self.scroll(steps.get(key) or far.get(key, 0))
        elif key == "enter":
            self._pick()
        elif (edit := self._edit.typed(key, character)) is not None:
            self._type(edit)
        else:
            super().press(key, character)

    def paste(self, text: str) -> None:
        """Put the text in."""
        self._type(self._edit.insert(text))

    def click(self, y: int) -> None:
        """Pick the clicked one."""
        top = max(0, min(self._at - self._room // 2, len(self._found) - self._room))
        index = top + y - 3
        if y >= 3 and index < len(self._found):
            self._at = index
            self._pick()

    def scroll(self, step: int) -> None:
        """Move the choice."""
        self._at = max(0, min(self._at + step, len(self._found) - 1))

    def _type(self, edit: Edit) -> None:
        if edit.text != self._edit.text:
            self._found, self._at = list(self._find(edit.text)), 0
        self._edit = edit

    def _pick(self) -> None:
        if self._found:
            self.closed = True
            self._found[self._at].run()
