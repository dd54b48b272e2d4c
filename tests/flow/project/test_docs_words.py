"""What the documentation quotes of the program is what the program says."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from llmgw.cli.ctl import node_page
from llmgw.cli.lazy import LazyGroup
from llmgw.cli.main import app
from llmgw.model.condition import XID_ACTIONS
from llmgw.model.fabric import Port
from llmgw.observability.alerts.table import GROUPS
from llmgw.observability.page import page

TOP = Path(__file__).parents[3]
PAGES = (TOP / "README.md", *sorted((TOP / "docs").rglob("*.md")))
COMMAND = re.compile(r"\bllmgw((?: [a-z][a-z-]*)+)")
QUOTED = re.compile(
    r"`([^`\n]*\bllmgw [^`\n]*)`|^ {4}(?:\.venv/bin/)?(llmgw [^#\n]*)", re.MULTILINE
)


def quoted() -> dict[str, set[str]]:
    """Return the commands that the documentation quotes: their words, and the pages."""
    found: dict[str, set[str]] = {}
    for path in PAGES:
        if "changelog.d" in path.parts:
            continue
        for inline, line in QUOTED.findall(path.read_text()):
            for words in COMMAND.findall(inline or line):
                found.setdefault(words.strip(), set()).add(path.name)
    return found


@pytest.mark.parametrize("words", sorted(quoted()))
def test_every_command_that_the_documentation_quotes_is_there(words: str) -> None:
    assert _is_command(words.split()), f"quoted in {', '.join(quoted()[words])}"


def test_a_command_that_is_not_there_is_found() -> None:
    assert not _is_command(["ctl", "hardwares"])
    assert not _is_command(["node"])


def _is_command(words: list[str]) -> bool:
    """Say whether words name a command, and perhaps what it is given."""
    command = get_command(app)
    for word in words:
        if not isinstance(command, LazyGroup):
            return command is not None
        command = command.get_command(None, word)
    return command is not None


@pytest.mark.parametrize("physical", ["Polling", "Disabled"])
def test_the_state_of_a_port_stands_in_the_alerts_as_ctl_node_prints_it(physical: str) -> None:
    told = node_page._port_state(
        Port(adapter="mlx5_0", number=1, state="DOWN", physical_state=physical)
    )
    (word,) = (part for part in told.split(", ") if part != "down")
    assert f"`{word}`" in page(GROUPS, "test")


@pytest.mark.parametrize("action", ["reset", "reboot", "replace"])
def test_the_actions_of_the_alerts_are_those_that_errors_ask_for(action: str) -> None:
    assert action in XID_ACTIONS
    assert f"`{action}`" in page(GROUPS, "test")
