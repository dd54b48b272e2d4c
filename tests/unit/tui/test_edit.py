"""Typing one line."""

import pytest

from llmgw_tui.draw.edit import Edit


@pytest.mark.parametrize(
    ("key", "text", "caret"),
    [
        ("backspace", "gp 01", 2),
        ("delete", "gpu01", 3),
        ("ctrl+u", " 01", 0),
        ("ctrl+k", "gpu", 3),
        ("ctrl+w", " 01", 0),
        ("left", "gpu 01", 2),
        ("right", "gpu 01", 4),
        ("home", "gpu 01", 0),
        ("end", "gpu 01", 6),
    ],
)
def test_keys_edit_as_in_a_shell(key: str, text: str, caret: int) -> None:
    assert Edit("gpu 01", 3).typed(key, None) == Edit(text, caret)


def test_characters_go_in_at_the_caret() -> None:
    assert Edit("gu", 1).typed("p", "p") == Edit("gpu", 2)
    assert Edit("a", 1).typed("ü", "ü") == Edit("aü", 2)


def test_other_keys_are_not_for_editing() -> None:
    assert Edit("a", 1).typed("f5", None) is None
    assert Edit("a", 1).typed("ctrl+x", "\x18") is None


def test_pasted_control_characters_are_left_out() -> None:
    assert Edit("", 0).insert("a\x1b[31mb\nc\r\n").text == "ab c"
