"""Filters and orders: which rows a list shows, and how they follow each other."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from llmgw_tui.draw.table import Gauge, Row

Test = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a person typed after `/`, read. `problem`: what is wrong with it, in words."""

    text: str = ""
    tests: tuple[Test, ...] = ()
    problem: str = ""

    def keeps(self, row: Row) -> bool:
        """Say whether a row is shown."""
        return all(test(row) for test in self.tests)


def read_filter(text: str) -> Filter:
    """Return the filter that a text means; every word of it has to hold.

    A word is a regular expression, `name=value` (a column or label; `*` stands for anything),
    `~abc` (those letters in that order) or any of these after `!`, which turns it round.
    """
    tests: list[Test] = []
    problem = ""
    for word in text.split():
        try:
            tests.append(_test(word))
        except re.error as error:
            problem = f"{word!r} is no regular expression: {error}"
            tests.append(_plain(word))
    return Filter(text, tuple(tests), problem)


def _test(word: str) -> Test:
    if word.startswith("!"):
        return _inverse(_test(word[1:])) if len(word) > 1 else _plain("")
    if word.startswith("~"):
        return _fuzzy(word[1:])
    name, sign, value = word.partition("=")
    if sign and name.replace("-", "").replace("_", "").replace(".", "").replace("/", "").isalnum():
        return _label(name, value)
    pattern = re.compile(word, re.IGNORECASE)
    return lambda row: pattern.search(searched(row)) is not None


def _inverse(test: Test) -> Test:
    return lambda row: not test(row)


def _plain(word: str) -> Test:
    lower = word.lower()
    return lambda row: lower in searched(row).lower()


def _label(name: str, value: str) -> Test:
    wanted = value.lower() if value else "*"

    def test(row: Row) -> bool:
        found = row.labels.get(name)
        if found is None:
            found = cell_text(row, name)
        return found is not None and fnmatchcase(found.lower(), wanted)

    return test


def _fuzzy(letters: str) -> Test:
    return lambda row: fuzzy(letters, row.id) is not None


def fuzzy(letters: str, text: str) -> int | None:
    """Return how far apart some letters stand in a text, in order; None when they do not."""
    at, first = -1, -1
    lower = text.lower()
    for letter in letters.lower():
        at = lower.find(letter, at + 1)
        if at < 0:
            return None
        first = at if first < 0 else first
    return at - max(first, 0) + max(first, 0) // 4


def cell_text(row: Row, key: str) -> str | None:
    """Return the text of one cell; None when the row has no such cell."""
    cell = row.cells.get(key)
    if cell is None:
        return None
    if isinstance(cell, Gauge):
        return cell.words.strip()
    return "".join(piece.text for piece in cell)


def searched(row: Row) -> str:
    """Return what a regular expression looks into: the cells, labels and words of a row."""
    cells = (cell_text(row, key) or "" for key in row.cells)
    labels = (f"{name}={value}" for name, value in row.labels.items())
    return " ".join((*cells, *labels, row.words))


def arranged(rows: Iterable[Row], kept: Filter, key: str, down: bool) -> Sequence[Row]:
    """Return the rows that a filter keeps, in order; what is not known comes last both ways."""
    shown = [row for row in rows if kept.keeps(row)]
    shown.sort(key=lambda row: _natural(row.id))
    known = [row for row in shown if key in row.order]
    unknown = [row for row in shown if key not in row.order]
    known.sort(key=lambda row: _rank(row.order[key]), reverse=down)
    return known + unknown


def _rank(value: float | str) -> tuple[int, float, tuple[tuple[int, str], ...]]:
    if isinstance(value, str):
        return (1, 0.0, _natural(value))
    return (0, value, ())


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key under which `gpu-2` comes before `gpu-10`."""
    parts = re.split(r"(\d+)", text.lower())
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts if part)
