"""The shortened repaint: less is sent, and the same is seen."""

import pyte
import pytest
import textual
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from llmgw_tui.compat import repaint

CONSOLE = Console(color_system="truecolor", force_terminal=True)
STYLES = st.builds(
    Style,
    color=st.sampled_from([None, "#ff0000", "blue", "default"]),
    bgcolor=st.sampled_from([None, "#00ff00", "default"]),
    bold=st.sampled_from([None, True]),
    dim=st.sampled_from([None, True]),
    underline=st.sampled_from([None, True]),
    reverse=st.sampled_from([None, True]),
)
RUNS = st.lists(st.tuples(st.text("ab ", min_size=1, max_size=5), STYLES), max_size=8)


def _drawn(sequences: str) -> list[object]:
    screen = pyte.Screen(60, 1)
    pyte.Stream(screen).feed(sequences)
    return [screen.buffer[0][x] for x in range(60)]


@given(RUNS)
def test_a_strip_looks_as_it_would_without_the_change(runs: list[tuple[str, Style]]) -> None:
    segments = [Segment(text, style) for text, style in runs]
    short = repaint.render_strip(Strip(segments), CONSOLE)
    stock = repaint._strip_original(Strip(segments), CONSOLE)
    assert _drawn(short) == _drawn(stock)
    assert len(short) <= len(stock)


def _update(text: str, start: int, end: int) -> str:
    strip = Strip([Segment(text, Style(bold=True))])
    width = strip.cell_length
    chops = ChopsUpdate([{0: strip}], [(0, start, end)], [[width]])
    return repaint.render_chops(chops, CONSOLE)


def test_only_the_cells_of_a_change_are_sent() -> None:
    sent = _update("abcdefghij", 4, 6)
    assert sent.startswith("\x1b[1;5H")
    assert "ef" in sent
    assert "d" not in sent
    assert "g" not in sent


def test_a_line_with_wide_characters_is_never_entered_at_half_of_one() -> None:
    sent = _update("漢字ab", 3, 5)
    assert sent.startswith("\x1b[1;1H")
    assert "漢字a" in sent


def test_no_newline_moves_the_screen() -> None:
    assert "\n" not in _update("abc", 0, 3)


def test_it_is_used_with_versions_that_it_was_tried_with_and_not_when_turned_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ChopsUpdate.render_segments, Strip.render
    try:
        assert repaint.install({})
        assert ChopsUpdate.render_segments is repaint.render_chops
        assert not repaint.install({"LLMGW_TUI_PATCH": "0"})
        assert ChopsUpdate.render_segments is repaint._chops_original
        monkeypatch.setattr(textual, "__version__", "9.9.9")
        assert not repaint.install({})
        assert Strip.render is repaint._strip_original
    finally:
        ChopsUpdate.render_segments, Strip.render = before  # type: ignore[method-assign]
