import importlib
from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from llmgw.base.errors import (
    LlmgwError,
    NotFound,
    PartlyDone,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.cli.ctl import group
from llmgw.cli.lazy import LazyGroup
from llmgw.cli.main import app, report


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if not isinstance(command, LazyGroup):
        yield path, command
        return
    for name in command.entries:
        yield from leaves(command.get_command(None, name), (*path, name))


LEAVES = dict(leaves(get_command(app)))


def test_every_command_of_the_issue_is_there() -> None:
    wanted = {
        *[(name,) for name in ("demo", "server", "gateway", "agent", "console")],
        *[("ctl", name) for name in ("status", "nodes", "replicas", "models", "keys", "logs")],
        *[("ctl", "model", name) for name in ("add", "rm", "show")],
        *[("ctl", "key", name) for name in ("add", "rm")],
        *[("ctl", "config", name) for name in ("get", "set", "history")],
        *[("ctl", "node", name) for name in ("token", "rm", "show")],
        ("ctl", "gateway", "token"),
    }
    assert wanted <= LEAVES.keys()


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_has_help_of_its_own(path: tuple[str, ...]) -> None:
    answer = CliRunner().invoke(app, [*path, "--help"])
    assert answer.exit_code == 0, answer.output
    assert "Usage:" in answer.output


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    answer = CliRunner().invoke(app, ["ctl", "node5"])
    assert answer.exit_code == 2
    assert "Did you mean node or nodes" in answer.output


def test_a_node_s_name_alone_shows_it() -> None:
    ctl = get_command(app)
    assert isinstance(ctl, LazyGroup)
    node = ctl.get_command(None, "ctl").get_command(None, "node")
    name, command, rest = node.resolve_command(None, ["gpu-03"])
    assert (name, rest) == ("show", ["gpu-03"])
    assert command is not None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreadable("x"), 1),
        (Usage("x"), 2),
        (NotFound("x"), 3),
        (Refused("x"), 4),
        (Unreachable("x"), 5),
        (TimedOut("x"), 6),
        (PartlyDone("x"), 7),
    ],
)
def test_each_error_is_one_line_a_hint_and_its_code(
    error: LlmgwError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error.hint = "do that"
    assert report(error) == code
    assert capsys.readouterr().err == "llmgw: x\n  do that\n"


def test_every_table_entry_names_something_that_can_be_imported() -> None:
    for entry in group.ENTRIES.values():
        module, _, attribute = entry.target.partition(":")
        assert hasattr(importlib.import_module(module), attribute)
