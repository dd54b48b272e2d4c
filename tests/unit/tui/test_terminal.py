"""What a terminal can do, told from its environment."""

import pytest

from llmgw_tui.terminal import Abilities, abilities, refusal

ALL = {"stdin": True, "stdout": True, "stderr": True}
XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_no_terminal_is_refused_by_name(stream: str) -> None:
    refused = refusal(XTERM, {**ALL, stream: False})
    assert refused is not None
    assert stream in refused[0]
    assert "llmgw ctl nodes --watch" in refused[1]


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_move_its_cursor_is_refused(term: str) -> None:
    refused = refusal({"TERM": term}, ALL)
    assert refused is not None
    assert "TERM" in refused[0]


def test_an_ordinary_terminal_is_fine() -> None:
    assert refusal(XTERM, ALL) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (XTERM, Abilities("dark", ascii_only=False)),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, Abilities("dark", ascii_only=False)),
        ({"TERM": "xterm"}, Abilities("ansi", ascii_only=False)),
        ({"TERM": "linux"}, Abilities("ansi", ascii_only=True)),
        ({**XTERM, "NO_COLOR": "1"}, Abilities("mono", ascii_only=False)),
        ({**XTERM, "NO_COLOR": ""}, Abilities("dark", ascii_only=False)),
        ({**XTERM, "LANG": "de_DE.UTF-8"}, Abilities("dark", ascii_only=False)),
        ({**XTERM, "LANG": "C"}, Abilities("dark", ascii_only=True)),
        ({**XTERM, "LANG": "C", "LC_ALL": "en_US.utf8"}, Abilities("dark", ascii_only=False)),
    ],
)
def test_palette_and_glyphs_follow_the_terminal(
    environ: dict[str, str], expected: Abilities
) -> None:
    assert abilities(environ, theme=None, ascii_only=False, slow=False) == expected


def test_what_was_typed_wins_but_over_no_color() -> None:
    assert abilities(XTERM, theme="light", ascii_only=True, slow=False) == ("light", True)
    assert abilities(XTERM, theme=None, ascii_only=False, slow=True).palette == "ansi"
    without = {**XTERM, "NO_COLOR": "1"}
    assert abilities(without, theme="light", ascii_only=False, slow=False).palette == "mono"
