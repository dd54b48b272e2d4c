"""Dialogs without a terminal: what they draw, what keys do."""

from llmgw_tui.dialogs.confirm import Confirm
from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.dialogs.pick import Choice, Pick
from llmgw_tui.dialogs.reading import Reading
from llmgw_tui.draw.text import pieces_width, said


def _text(dialog: Dialog, width: int = 80, height: int = 24) -> str:
    wide, tall = dialog.size(width, height)
    lines = dialog.draw(wide, tall)
    assert len(lines) == tall
    assert {pieces_width(line.pieces) for line in lines} == {wide}
    return "\n".join(line.text for line in lines)


def _type(dialog: Dialog, text: str) -> None:
    for character in text:
        dialog.press(character, character)


class Asked:
    def __init__(self, name: str) -> None:
        self.agreed = 0
        self.copied: list[str] = []
        self.dialog = Confirm(
            "Drain gpu-03",
            ["2 replicas move to other nodes", "requests in flight finish"],
            "llmgw ctl node drain gpu-03",
            name=name,
            agreed=self._agree,
            copy=self.copied.append,
        )

    def _agree(self) -> None:
        self.agreed += 1


def test_a_question_says_what_happens_and_the_command_that_does_the_same() -> None:
    text = _text(Asked("gpu-03").dialog)
    assert "2 replicas move" in text
    assert "$ llmgw ctl node drain gpu-03" in text
    assert "type gpu-03 to go on" in text


def test_only_the_typed_name_agrees() -> None:
    asked = Asked("gpu-03")
    asked.dialog.press("enter", None)
    _type(asked.dialog, "gpu-3")
    asked.dialog.press("enter", None)
    assert (asked.agreed, asked.dialog.closed) == (0, False)
    asked.dialog.press("ctrl+u", None)
    _type(asked.dialog, "gpu-03")
    asked.dialog.press("enter", None)
    assert (asked.agreed, asked.dialog.closed) == (1, True)


def test_escape_does_nothing_and_ctrl_y_copies_the_command() -> None:
    asked = Asked("")
    asked.dialog.press("ctrl+y", None)
    assert asked.copied == ["llmgw ctl node drain gpu-03"]
    assert not asked.dialog.closed
    asked.dialog.press("escape", None)
    assert (asked.agreed, asked.dialog.closed) == (0, True)


def test_a_question_fits_a_small_terminal() -> None:
    _text(Asked("gpu-03").dialog, 40, 10)


def _numbers(picked: list[str]) -> Pick:
    names = [f"node-{number:02d}" for number in range(40)]

    def find(text: str) -> list[Choice]:
        return [Choice(n, "", lambda n=n: picked.append(n)) for n in names if text in n]  # type: ignore[misc]

    return Pick("Node", find)


def test_picking_narrows_moves_and_runs_what_is_chosen() -> None:
    picked: list[str] = []
    pick = _numbers(picked)
    _type(pick, "-1")
    pick.press("down", None)
    assert "node-11" in _text(pick)
    assert "node-20" not in _text(pick)
    pick.press("enter", None)
    assert (picked, pick.closed) == (["node-11"], True)


def test_the_chosen_one_is_always_in_sight() -> None:
    pick = _numbers([])
    for _ in range(39):
        pick.press("down", None)
        _text(pick)
    assert "node-39" in _text(pick)
    pick.press("down", None)
    assert "node-39" in _text(pick)


def test_a_click_picks() -> None:
    picked: list[str] = []
    pick = _numbers(picked)
    _text(pick)
    pick.click(5)
    assert picked == ["node-02"]


def test_nothing_to_pick_is_said_and_enter_does_nothing() -> None:
    pick = _numbers([])
    pick.paste("zzz\n")
    assert "nothing fits" in _text(pick)
    pick.press("enter", None)
    assert not pick.closed


def test_text_to_read_scrolls_to_its_end_and_no_further() -> None:
    lines = [said(f"line {number}") for number in range(50)]
    reading = Reading("Keys", lambda _: lines)
    assert "line 0 " in _text(reading)
    for _ in range(20):
        reading.press("pagedown", None)
    assert "line 49" in _text(reading)
    reading.press("q", "q")
    assert reading.closed
