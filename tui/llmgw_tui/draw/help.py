"""The help page: every key that works here, from the tables that bind them."""

from collections.abc import Sequence

from llmgw_tui.draw.states import (
    ABSENT,
    DOWN,
    GLYPHS,
    IDLE,
    MOVING,
    SERVING,
    UNKNOWN,
    WARN,
)
from llmgw_tui.draw.text import Piece, Pieces, fit, said

MEANINGS = (
    (SERVING, "serving"),
    (IDLE, "ready, idle"),
    (MOVING, "on its way"),
    (WARN, "look at it"),
    (DOWN, "down, failed"),
    (UNKNOWN, "not known"),
    (ABSENT, "not measured"),
)
FILTER_HELP = (
    ("gpu-0[1-4]", "a regular expression, upper and lower case alike"),
    ("!lost", "all but what matches"),
    ("state=lost", "a column or a label is that value (* stands for anything)"),
    ("~gp3", "letters in that order, anything between"),
    ("cpu !lost", "several words: all of them"),
)


def legend() -> tuple[Pieces, ...]:
    """Return what the glyphs mean, one line each."""
    return tuple(
        said((GLYPHS[kind], kind), " ", (words, "dim"))
        for kind, words in MEANINGS
        if kind != ABSENT
    )


def body(groups: Sequence[tuple[str, Sequence[tuple[str, str]]]], width: int) -> list[Pieces]:
    """Return the help's lines: keys in groups, then how filters are written, then the glyphs."""
    lines: list[Pieces] = []
    for title, keys in groups:
        lines.extend(_group(title, keys, width))
    lines.extend(_group("Filter", FILTER_HELP, width, columns=1))
    lines.append(said(("States", "title")))
    lines.extend(said("  ", *pieces) for pieces in legend())
    return lines


def _group(
    title: str, keys: Sequence[tuple[str, str]], width: int, columns: int = 2
) -> list[Pieces]:
    """Return a titled group, in several columns where there is room."""
    lines: list[Pieces] = [said((title, "title"))]
    columns = columns if width >= 74 else 1
    cell = width // columns
    rows = -(-len(keys) // columns)
    for row in range(rows):
        pieces: list[Piece] = []
        for column in range(columns):
            index = row + column * rows
            if index < len(keys):
                shown, words = keys[index]
                pieces += fit(said("  ", *fit(said((shown, "key")), 12), words), cell)
        lines.append(tuple(pieces))
    lines.append(())
    return lines
