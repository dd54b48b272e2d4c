"""Command lines that are written wrong: one line, a hint, exit code 2."""

import errno
import gc
import io
import sys

import pytest

from llmgw.base.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Usage
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


class Full(io.StringIO):
    """A standard output whose device takes nothing, which shows when it is flushed."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_a_command_that_ends_by_itself_printed_is_written_before_it_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "app", lambda **_: sys.exit(EXIT_OK))
    monkeypatch.setattr(main, "_write_no_more", lambda: None)
    monkeypatch.setattr(sys, "stdout", Full())
    assert run(monkeypatch, "agent") == EXIT_FAILED
    assert capsys.readouterr().err == "llmgw: can't be written: No space left on device\n"
