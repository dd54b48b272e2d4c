"""Forms and what is shown once: what they draw, what keys do."""

from collections.abc import Mapping
from typing import Any

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.dialogs.form import Form
from llmgw_tui.dialogs.secret import ShownOnce
from llmgw_tui.draw import keyform
from llmgw_tui.draw.text import pieces_width


def _text(dialog: Dialog, width: int = 80, height: int = 24) -> str:
    wide, tall = dialog.size(width, height)
    lines = dialog.draw(wide, tall)
    assert len(lines) == tall
    assert {pieces_width(line.pieces) for line in lines} == {wide}
    return "\n".join(line.text for line in lines)


def _type(dialog: Dialog, text: str) -> None:
    for character in text:
        dialog.press(character, character)


class Typed:
    def __init__(self) -> None:
        self.agreed: list[Mapping[str, Any]] = []
        self.copied: list[str] = []
        self.form = Form(
            "Make a key",
            ("It works within a second.",),
            keyform.fields(),
            keyform.read,
            agreed=self.agreed.append,
            copy=self.copied.append,
        )


def test_a_form_shows_the_command_that_does_the_same_while_one_types() -> None:
    typed = Typed()
    assert "$ llmgw ctl key add NAME" in _text(typed.form)
    _type(typed.form, "lab")
    typed.form.press("tab", None)
    _type(typed.form, "m")
    assert "$ llmgw ctl key add lab --model m" in _text(typed.form)
    typed.form.press("ctrl+y", None)
    assert typed.copied == ["llmgw ctl key add lab --model m"]


def test_a_form_that_is_wrong_stays_and_says_so_only_once_it_was_tried() -> None:
    typed = Typed()
    assert "whose is it?" not in _text(typed.form)
    typed.form.press("enter", None)
    assert "whose is it?" in _text(typed.form)
    assert (typed.form.closed, typed.agreed) == (False, [])
    _type(typed.form, "lab")
    typed.form.press("enter", None)
    assert (typed.form.closed, typed.agreed) == (True, [{"name": "lab"}])


def test_lines_follow_each_other_around_and_a_click_goes_to_one() -> None:
    typed = Typed()
    typed.form.press("shift+tab", None)
    _type(typed.form, "3")
    typed.form.click(3)
    _type(typed.form, "lab")
    typed.form.press("enter", None)
    assert typed.agreed == [{"name": "lab", "priority": 3}]


def test_of_a_text_that_is_longer_than_its_line_the_part_around_the_caret_shows() -> None:
    typed = Typed()
    _type(typed.form, "a" * 100 + "end")
    assert "aend" in _text(typed.form)
    typed.form.press("home", None)
    _type(typed.form, "begin")
    assert "begina" in _text(typed.form)


def test_pasted_text_goes_where_one_types_and_escape_changes_nothing() -> None:
    typed = Typed()
    typed.form.paste("lab\n")
    assert "add lab" in _text(typed.form)
    typed.form.press("escape", None)
    assert (typed.form.closed, typed.agreed) == (True, [])


def test_a_secret_shows_whole_however_narrow_it_is_and_only_escape_ends_it() -> None:
    secret, copied = "llmgw_k1_" + "s3cret" * 12, list[str]()
    dialog = ShownOnce("A new key", secret, ("It is shown this once.",), copied.append)
    for width in (40, 80, 200):
        text = _text(dialog, width)
        inside = "".join(line.strip("│ ") for line in text.splitlines()[1:-1])
        assert inside.startswith(secret)
    for key in ("enter", "q", "space", "x"):
        dialog.press(key, key)
    assert not dialog.closed
    dialog.press("y", "y")
    assert copied == [secret]
    dialog.press("escape", None)
    assert dialog.closed
