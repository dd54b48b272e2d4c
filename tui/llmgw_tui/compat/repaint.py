"""Less to send for the same screen: Textual's repainting, with two changes.

- A partial repaint sends the cells that changed, not each line from its left edge. Textual crops
  a changed strip from its first cell (`strip.crop(0, …)`, issue 5625 there), so several changes in
  a line send the same cells again and again: 24 times the bytes for an animated screen.
- Between two runs of a line only what differs is switched. Textual resets after each run and says
  every attribute and both colours again: about twice the bytes for a table.

Both are used only with versions that they were tried with; `LLMGW_TUI_PATCH=0` turns them off.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import textual
from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

TRIED = frozenset({"8.2.8"})
_chops_original = ChopsUpdate.render_segments
_strip_original = Strip.render


def install(environ: Mapping[str, str]) -> bool:
    """Use the replacements if this Textual is known; say whether they are used."""
    wanted = environ.get("LLMGW_TUI_PATCH", "1") != "0" and textual.__version__ in TRIED
    for owner, method, ours, stock in (
        (ChopsUpdate, "render_segments", render_chops, _chops_original),
        (Strip, "render", render_strip, _strip_original),
    ):
        setattr(owner, method, ours if wanted else stock)
    return wanted


def render_chops(self: ChopsUpdate, console: Console) -> str:
    """Return the terminal sequences of a partial update."""
    parts: list[str] = []
    for y, start, end in self.spans:
        ends = self.chop_ends[y]
        for right, (left, strip) in zip(ends, self.chops[y].items(), strict=False):
            if strip is None or left >= end or right <= start:
                continue
            first, last = max(left, start), min(right, end)
            if first > left and _has_wide(strip):
                # A wide character must not be entered at its second cell.
                first = left
            if first != left or last != right:
                strip = strip.crop(first - left, last - left)  # noqa: PLW2901
            parts.append(Control.move_to(first, y).segment.text)
            parts.append(strip.render(console))
    return "".join(parts)


def render_strip(self: Strip, console: Console) -> str:
    """Return the terminal sequences of a strip."""
    system = console._color_system  # noqa: SLF001
    if system is None or any(style is not None and style.link for _, style, _ in self):
        return _strip_original(self, console)
    if self._render_cache is None:
        parts: list[str] = []
        now = _PLAIN
        for text, style, _ in self:
            wanted = _PLAIN if style is None else _codes(style, system)
            if wanted != now:
                parts.append(_switch(now, wanted))
                now = wanted
            parts.append(text)
        if now != _PLAIN:
            parts.append("\x1b[0m")
        self._render_cache = "".join(parts)
    return self._render_cache


class _Codes(NamedTuple):
    """A style as the terminal is told it."""

    attributes: tuple[str, ...] = ()
    color: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()


_PLAIN = _Codes()
_ATTRIBUTES = ("bold", "dim", "italic", "underline", "blink", "reverse", "strike")
_NUMBERS = ("1", "2", "3", "4", "5", "7", "9")


@lru_cache(4096)
def _codes(style: Style, system: ColorSystem) -> _Codes:
    attributes = tuple(
        number for name, number in zip(_ATTRIBUTES, _NUMBERS, strict=True) if getattr(style, name)
    )
    color, ground = style.color, style.bgcolor
    return _Codes(
        attributes,
        () if color is None else color.downgrade(system).get_ansi_codes(),
        () if ground is None else ground.downgrade(system).get_ansi_codes(foreground=False),
    )


@lru_cache(4096)
def _switch(now: _Codes, wanted: _Codes) -> str:
    """Return the shortest sequence from one style to another."""
    afresh = ";".join(("0", *_changes(_PLAIN, wanted)))
    if set(now.attributes) - set(wanted.attributes):
        return f"\x1b[{afresh}m"
    return f"\x1b[{min(';'.join(_changes(now, wanted)), afresh, key=len)}m"


def _changes(now: _Codes, wanted: _Codes) -> Iterator[str]:
    """Yield what turns one style into another that has all of its attributes."""
    yield from (number for number in wanted.attributes if number not in now.attributes)
    if wanted.color != now.color:
        yield from wanted.color or ("39",)
    if wanted.ground != now.ground:
        yield from wanted.ground or ("49",)


def _has_wide(strip: Strip) -> bool:
    return sum(len(segment.text) for segment in strip) != strip.cell_length
