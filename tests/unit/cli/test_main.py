"""Command lines that are written wrong: one line, a hint, exit code 2."""

import gc
import sys

import pytest

from llmgw.base.errors import EXIT_OK, EXIT_USAGE, Usage
from llmgw.cli import main
from llmgw.cli.options import duration


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> object:
    monkeypatch.setattr(sys, "argv", ["llmgw", *argv])
    # Frozen, the garbage of other tests would never be found.
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with pytest.raises(SystemExit) as end:
        main.main()
    return end.value.code


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("demo", "--onze"), "did you mean --once"),
        (("ctl", "nodse"), "Did you mean node"),
        (("ctl", "node", "show"), "missing argument 'NODE'"),
        (("ctl", "logs", "gpu-1", "-n", "-1"), "-1 is not in the range"),
        (("ctl", "status", "-o", "xml"), "'xml' is not one of"),
        (("ctl", "nodes", "more"), "unexpected extra argument"),
        (("ctl", "nodes", "-o"), "requires an argument"),
        (("completion",), "Choose from"),
    ],
)
def test_a_command_line_that_is_wrong_is_one_line_and_a_hint(
    argv: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *argv) == EXIT_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    first, hint = said.err.splitlines()
    assert first.startswith("llmgw: ")
    assert words in first + hint
    assert "--help" in hint


def test_help_ends_well_and_a_group_alone_shows_its_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "ctl", "--help") == EXIT_OK
    assert "nodes" in capsys.readouterr().out
    assert run(monkeypatch, "ctl") == EXIT_USAGE
    assert "nodes" in capsys.readouterr().err


def test_a_duration_that_is_none_is_a_wrong_command_line() -> None:
    assert duration("--since", "5m") == 300.0
    with pytest.raises(Usage, match="--since: 'soon' is not a duration"):
        duration("--since", "soon")


def test_what_a_command_is_made_of_is_not_searched_for_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    monkeypatch.setattr(sys, "argv", ["llmgw", "version"])
    monkeypatch.setattr(gc, "freeze", lambda: done.append("frozen"))
    monkeypatch.setattr(main, "app", lambda **_: done.append("run"))
    with pytest.raises(SystemExit):
        main.main()
    assert done == ["frozen", "run"]
