"""Commands that messages tell a person to run: what is put into one is one word of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.base.errors import Refused
from llmgw.base.places import read_private

ROOTS = ("llmgw", "agent/llmgw_agent", "tui/llmgw_tui")
TOP = Path(__file__).parents[3]
COMMAND = re.compile(
    r"(?:\Arun: |\b(?:chown |chmod |curl |llmgw (?:ctl|agent -|observability) ))[^\n]*\Z"
)
PLAIN = {
    "os.geteuid()": "a number",
    "us": "a number",
    "identity.role": "one of four words",
    "token.role": "one of four words",
    "command": "one of two words",
    "identity.id": "an id, checked when it joined: letters, digits, dots, dashes",
    "wanted or identity.id": "an id, checked when it was given",
    "token.subject": "an id, checked when the token was made",
    "job.id": "an id, made here: letters, digits, a dash",
    "path": "of a setting: names and dots",
    "gateway": "an address of this machine",
    "key.reveal()": "letters and digits, in quotes",
    "source": "an option, made just before",
}
"""What needs no quotes, and why not."""


def suggested() -> Iterator[tuple[str, str]]:
    """Yield each value that stands in a command of a message, with the place of the message."""
    for root in ROOTS:
        for path in sorted((TOP / root).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    for value in _values(node):
                        yield f"{path.relative_to(TOP)}:{node.lineno}", value


def _values(text: ast.JoinedStr) -> Iterator[str]:
    before = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            if COMMAND.search(before):
                yield ast.unparse(part.value)
            before += "x"


def test_every_value_in_a_suggested_command_is_quoted_or_needs_no_quotes() -> None:
    found = list(suggested())
    assert len(found) > 10
    left = [
        f"{place}: {value}"
        for place, value in found
        if "quote(" not in value and value not in PLAIN
    ]
    assert left == []


def test_the_command_that_makes_a_file_private_names_it_as_one_word(tmp_path: Path) -> None:
    path = tmp_path / "my token"
    path.write_text("x")
    path.chmod(0o644)
    with pytest.raises(Refused) as caught:
        read_private(path)
    assert caught.value.hint == f"run: chmod 600 '{path}'"
