"""Lines into the strips that Textual paints: roles become styles, glyphs ASCII where asked."""

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from llmgw.base import braille
from llmgw_tui.draw.text import Line, clean, fit, width_of
from llmgw_tui.themes.palette import Ground, Ink, Palette

_OFF_GROUND = frozenset({"frame"})
"""Roles that belong to the panel and not to the line between its edges."""
_MOST_STRIPS = 2048
_ASCII = str.maketrans(
    {
        "●": "*", "○": ".", "◐": "~", "▲": "!", "✖": "X", "–": "-", "—": "-", "…": "~",
        "━": "=", "╸": "-", "─": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
        "▸": ">", "◂": "<", "▼": "v", "·": ".", "×": "x", "°": " ", "↑": "^", "↓": "v",
        "→": ">", "█": "#", "▏": "|", "┤": "|",
    }
)  # fmt: skip


def to_ascii(text: str) -> str:
    """Return a text of ASCII, as wide: known glyphs by table, braille by height, else `?`."""
    if text.isascii():
        return text
    return "".join(_one(character) for character in text.translate(_ASCII))


def _one(character: str) -> str:
    if character.isascii():
        return character
    if braille.is_braille(character):
        return braille.to_ascii(character)
    return "?" * width_of(character)


def _join(before: str, old: Style, text: str, new: Style) -> tuple[str, Style] | None:
    """Return two runs as one where that looks the same; each run costs forty bytes on the line.

    A blank shows its ground alone, so it takes its neighbour's style.
    """
    if old == new:
        return before + text, old
    if old.bgcolor != new.bgcolor or old.reverse or new.reverse or old.underline or new.underline:
        return None
    if not text.strip(" "):
        return before + text, old
    return (before + text, new) if not before.strip(" ") else None


class Paint:
    """Turns lines into strips under one palette. Strips are kept: the same line is made once."""

    def __init__(self, palette: Palette, *, ascii_only: bool = False) -> None:
        self.palette = palette
        self.ascii_only = ascii_only
        self._styles: dict[tuple[str, str], Style] = {}
        self._strips: dict[tuple[Line, int], Strip] = {}

    def style(self, role: str, base: str = "panel") -> Style:
        """Return the style of a role on a ground."""
        key = (role, base)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._mix(role, base)
        return style

    def strip(self, line: Line, width: int) -> Strip:
        """Return a line as a strip of exactly `width` cells."""
        key = (line, width)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            strip = self._strips[key] = self._make(line, width)
        return strip

    def _make(self, line: Line, width: int) -> Strip:
        runs: list[tuple[str, Style]] = []
        # Texts were cleaned before they were laid out; the last door is shut all the same.
        pieces = [piece._replace(text=clean(piece.text)) for piece in line.pieces]
        for text, role in fit(pieces, width):
            shown = to_ascii(text) if self.ascii_only else text
            style = self.style(role, line.base)
            if runs and (joined := _join(*runs[-1], shown, style)) is not None:
                runs[-1] = joined
            else:
                runs.append((shown, style))
        return Strip([Segment(text, style) for text, style in runs], width)

    def _mix(self, role: str, base: str) -> Style:
        role, _, own = role.partition("@")
        base = own or base
        under = (
            "panel" if role in _OFF_GROUND and base in {"cursor", "stale", "stale-cursor"} else base
        )
        ground = self.palette.grounds.get(under, Ground())
        ink = self.palette.inks.get(role, Ink())
        if ground.flat:
            ink = Ink(bold=ink.bold)
        color = ink.color or ground.color
        reverse = ground.reverse or ink.reverse
        return Style(
            color=Color.parse(color) if color else None,
            bgcolor=Color.parse(ground.background) if ground.background else None,
            bold=ink.bold or ground.bold or None,
            dim=ink.dim or ground.dim or None,
            underline=ink.underline or None,
            reverse=reverse or None,
        )
