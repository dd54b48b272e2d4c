"""A log: the newest lines, followed until somebody scrolls back."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from llmgw_tui.draw.page import Section, as_line, rule
from llmgw_tui.draw.text import Line, Piece, Pieces, clean, fit, said
from llmgw_tui.widgets.drawn import Brush
from llmgw_tui.widgets.scrolled import Scrolled

MOST_LINES = 5000
"""Older ones are dropped: what an engine prints in hours does not belong into memory."""
MOST_CELLS = 2000
"""Of one line; an engine may print a whole prompt."""


_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\s")
_LEVEL = re.compile(r"\b(?:(ERROR|FATAL|CRITICAL|Traceback)|(WARN(?:ING)?))\b", re.IGNORECASE)
_NEAR = 64
"""Cells in which a line says how bad it is; further on it quotes somebody."""


def told(text: str) -> Pieces:
    """Return a line of a log with its time dimmed and the word that says how bad it is marked."""
    stamp = _STAMP.match(text)
    at = stamp.end() if stamp else 0
    level = _LEVEL.search(text, at, at + _NEAR)
    if level is None:
        return said((text[:at], "dim"), text[at:])
    role = "down" if level[1] else "warn"
    return said((text[:at], "dim"), text[at : level.start()], (level[0], role), text[level.end() :])


class LogLines(Scrolled):
    """Keeps the newest lines of one source; nothing in them reaches the terminal raw."""

    def __init__(
        self,
        brush: Brush,
        *,
        title: str = "",
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(brush, id=id)
        self.title = title
        """Drawn as a rule above the lines; empty: none."""
        self.head = 1 if title else 0
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self.following = True
        self.shift = 0
        """Cells that are scrolled to the right."""
        self.pattern: re.Pattern[str] | None = None
        self.words = ""
        """What to say while there are no lines."""

    def clear(self, words: str = "") -> None:
        """Forget all lines: another source is shown."""
        self._lines.clear()
        self.top = 0
        self.following = True
        self.words = words
        self.repaint()

    def add(self, lines: Iterable[str], dropped: int = 0) -> None:
        """Add lines; the first line stays in place unless the end is followed."""
        before = len(self._lines)
        new = [clean(line.rstrip("\r\n"))[:MOST_CELLS] for line in lines]
        if dropped:
            new.insert(0, f"… {dropped} lines came too fast and were left out")
        self._lines.extend(new)
        lost = before + len(new) - len(self._lines)
        if self.following:
            self.top = max(0, self.count() - self.room())
        else:
            self.top = max(0, self.top - lost)

    def text(self) -> str:
        """Return the lines that show, for copying."""
        return "\n".join(islice(self._lines, self.top, self.top + self.room()))

    def count(self) -> int:
        """Return how many lines are kept."""
        return len(self._lines)

    def scroll_by(self, step: int) -> None:
        """Scroll; the end is followed again once it is reached."""
        self.following = self.top + step >= self.count() - self.room()
        super().scroll_by(step)

    def follow(self) -> None:
        """Stop following, or go to the end and follow."""
        self.following = not self.following
        if self.following:
            self.top = max(0, self.count() - self.room())
        self.changed()

    def search(self, pattern: re.Pattern[str] | None) -> None:
        """Mark what matches and show the newest match."""
        self.pattern = pattern
        if pattern is not None:
            self.next_match(-1, start=self.count())
        self.changed()

    def next_match(self, direction: int, *, start: int | None = None) -> bool:
        """Show the next line that matches; say whether there is one."""
        if self.pattern is None:
            return False
        at = self.top if start is None else start
        lines = list(self._lines)
        order = (
            range(at + 1, len(lines)) if direction > 0 else range(min(at, len(lines)) - 1, -1, -1)
        )
        found = next((index for index in order if self.pattern.search(lines[index])), None)
        if found is None:
            return False
        self.following = False
        self.top = max(0, min(found, self.count() - self.room()))
        self.changed()
        return True

    def sideways(self, step: int) -> None:
        """Scroll long lines."""
        self.shift = max(0, self.shift + step)
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines that show."""
        height -= self.head
        title = [as_line(rule(Section(self.title, ()), width), width)] if self.title else []
        if not self._lines:
            return [*title, Line(fit((Piece(self.words, "dim"),), width))]
        if self.following:
            self.top = max(0, self.count() - height)
        shown = islice(self._lines, self.top, self.top + height)
        return [*title, *(Line(fit(self._marked(one[self.shift :]), width)) for one in shown)]

    def _marked(self, text: str) -> Pieces:
        if self.pattern is None:
            return told(text)
        pieces: list[Piece] = []
        at = 0
        for match in self.pattern.finditer(text):
            if match.start() == match.end():
                continue
            pieces.append(Piece(text[at : match.start()]))
            pieces.append(Piece(match[0], "match"))
            at = match.end()
        pieces.append(Piece(text[at:]))
        return tuple(piece for piece in pieces if piece.text)
