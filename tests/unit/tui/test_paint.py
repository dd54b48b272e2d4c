"""Palettes and how lines become strips."""

from itertools import pairwise

import pytest
from rich.style import Style

from llmgw_tui.draw.states import GLYPHS
from llmgw_tui.draw.text import Line, Piece, said
from llmgw_tui.themes.paint import Paint, to_ascii
from llmgw_tui.themes.palette import PALETTES, Palette

TRUE_COLOUR = [palette for palette in PALETTES.values() if not palette.ansi]


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, two: str) -> float:
    low, high = sorted((_luminance(one), _luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", TRUE_COLOUR, ids=lambda palette: palette.name)
def test_states_and_text_can_be_read_on_every_ground(palette: Palette) -> None:
    ground = palette.grounds["panel"].background
    assert ground is not None
    for role in (*GLYPHS, "dim", "head", "key", "title", "command"):
        colour = palette.inks[role].color
        assert colour is not None
        least = 3.0 if role == "absent" else 4.5
        assert _contrast(colour, ground) >= least, f"{role} in {palette.name}"


@pytest.mark.parametrize("palette", TRUE_COLOUR, ids=lambda palette: palette.name)
def test_fuller_bars_stand_out_more(palette: Palette) -> None:
    ground = palette.grounds["panel"].background or ""
    found = [_contrast(palette.inks[f"fill{n}"].color or "", ground) for n in (1, 2, 3)]
    assert all(low < high for low, high in pairwise(found))
    states = {palette.inks[kind].color for kind in GLYPHS}
    assert not states & {palette.inks[f"fill{n}"].color for n in (1, 2, 3)}


@pytest.mark.parametrize("palette", PALETTES.values(), ids=lambda palette: palette.name)
@pytest.mark.parametrize("base", ["panel", "cursor", "bar", "dialog", "stale", "chosen"])
def test_every_run_has_a_style(palette: Palette, base: str) -> None:
    line = Line(said("plain", ("dim", "dim"), ("unheard of", "no such role")), base)
    strip = Paint(palette).strip(line, 40)
    assert strip.cell_length == 40
    assert all(isinstance(segment.style, Style) for segment in strip)


def test_the_monochrome_palette_sends_no_colour() -> None:
    palette = PALETTES["mono"]
    paint = Paint(palette)
    for role in palette.inks:
        for base in palette.grounds:
            style = paint.style(role, base)
            assert style.color is None
            assert style.bgcolor is None


def test_the_terminals_own_colours_are_the_only_ones_in_ansi() -> None:
    paint = Paint(PALETTES["ansi"])
    for role in PALETTES["ansi"].inks:
        colour = paint.style(role).color
        assert colour is None or colour.number is not None


def test_ascii_replaces_every_glyph_and_keeps_the_width() -> None:
    drawn = "● ○ ◐ ▲ ✖ – … ━━╸── ╭─│ ▸ ▼ × ° · ⣿⢀ 漢 é"
    shown = to_ascii(drawn)
    assert shown.isascii()
    assert shown.startswith("* . ~ ! X - ~ ==--- +-| > v x")
    strip = Paint(PALETTES["dark"], ascii_only=True).strip(Line(said(drawn)), 60)
    assert strip.cell_length == 60
    assert strip.text.isascii()


def test_a_marked_part_of_a_line_lies_on_the_cursors_ground() -> None:
    paint = Paint(PALETTES["dark"])
    line = Line((Piece("a", "text"), Piece("b", "text@cursor"), Piece("c", "text")))
    grounds = [segment.style.bgcolor for segment in paint.strip(line, 3) if segment.style]
    cursor, panel = paint.style("text", "cursor").bgcolor, paint.style("text").bgcolor
    assert grounds == [panel, cursor, panel]
