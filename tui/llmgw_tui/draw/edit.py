"""One line of text that somebody types, as a value."""

from typing import NamedTuple

from llmgw_tui.draw.text import Piece, Pieces, clean, said


class Edit(NamedTuple):
    """A text and where the caret is in it."""

    text: str = ""
    caret: int = 0

    def typed(self, key: str, character: str | None) -> "Edit | None":
        """Return the text after a key; None when the key is not for editing."""
        moved = self._moved(key)
        if moved is not None:
            return self._replace(caret=moved)
        match key:
            case "backspace" | "ctrl+h":
                return self._cut(self.caret - 1, self.caret)
            case "delete":
                return self._cut(self.caret, self.caret + 1)
            case "ctrl+u":
                return self._cut(0, self.caret)
            case "ctrl+k":
                return self._cut(self.caret, len(self.text))
            case "ctrl+w":
                kept = self.text[: self.caret].rstrip()
                return self._cut(kept.rfind(" ") + 1, self.caret)
            case _:
                pass
        if character is not None and character.isprintable():
            return self.insert(character)
        return None

    def insert(self, text: str) -> "Edit":
        """Return the text with something put in at the caret; control characters are left out."""
        text = clean(text.strip("\r\n"))
        whole = self.text[: self.caret] + text + self.text[self.caret :]
        return Edit(whole, self.caret + len(text))

    def pieces(self) -> Pieces:
        """Return the text with the caret as a marked cell; it does not blink."""
        under = self.text[self.caret : self.caret + 1] or " "
        after = self.text[self.caret + 1 :]
        return said(self.text[: self.caret], Piece(under, "caret@cursor"), after)

    def _moved(self, key: str) -> int | None:
        places = {
            "left": max(0, self.caret - 1),
            "right": min(len(self.text), self.caret + 1),
            "home": 0,
            "ctrl+a": 0,
            "end": len(self.text),
            "ctrl+e": len(self.text),
        }
        return places.get(key)

    def _cut(self, start: int, end: int) -> "Edit":
        start, end = max(0, start), min(len(self.text), end)
        return Edit(self.text[:start] + self.text[end:], start)
