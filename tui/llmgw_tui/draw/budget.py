"""Sections that share a page that does not scroll: each gets its least, then what is left over."""

from collections.abc import Sequence
from typing import NamedTuple

from llmgw_tui.draw.page import PageLine, Section, gap_for, stack
from llmgw_tui.draw.text import said


class Item(NamedTuple):
    """Something to show: in one line, or in several where there is room."""

    short: PageLine
    whole: tuple[PageLine, ...] = ()
    """Empty: the short form says all."""


class Wanted(NamedTuple):
    """A section before it is known how many lines it gets."""

    title: str
    items: tuple[Item, ...]
    least: int
    """Lines that it gets before others get more."""

    @property
    def lines(self) -> int:
        """Return how many lines it would fill."""
        return sum(max(1, len(item.whole)) for item in self.items)


def column(sections: Sequence[Wanted], width: int, room: int) -> list[PageLine]:
    """Return sections stacked within `room` lines; a title says how many are left out."""
    shown = [section for section in sections if section.items]
    gap = gap_for(room)
    spare = room - (1 + gap) * len(shown) + gap
    given: list[int] = []
    for section in shown:
        given.append(min(len(section.items), section.least, max(0, spare)))
        spare -= given[-1]
    for wanted in (_first_lines, _all_lines):
        for index, section in enumerate(shown):
            more = min(max(0, spare), wanted(section) - given[index])
            given[index] += more
            spare -= more
    cut = (_cut(section, lines) for section, lines in zip(shown, given, strict=True))
    return stack(cut, width, gap)[: max(0, room)]


def _first_lines(section: Wanted) -> int:
    return len(section.items)


def _all_lines(section: Wanted) -> int:
    return section.lines


def _cut(section: Wanted, room: int) -> Section:
    """Return a section in `room` lines: every item's short form, the first ones whole."""
    items = section.items[:room]
    extra = room - len(items)
    lines: list[PageLine] = []
    for item in items:
        fits = len(item.whole) - 1 <= extra
        lines += item.whole if item.whole and fits else (item.short,)
        extra -= max(0, len(item.whole) - 1) if fits else 0
    left_out = len(section.items) - len(items)
    notes = said((f"{left_out} more", "dim")) if left_out > 0 else ()
    return Section(section.title, tuple(lines), notes)
