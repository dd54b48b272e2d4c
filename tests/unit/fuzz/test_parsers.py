"""Every reader on every recording of its tool, garbled: an `Unreadable`, or fields left out."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from llmgw_agent import parse
from llmgw_agent.parse.catalog import MODULES
from llmgw_agent.parse.tool import Tool
from tests.fuzz import runs
from tests.fuzz.check import complaint
from tests.fuzz.corpus import FIXTURES, by_name, recordings
from tests.fuzz.further import BY_HAND, FURTHER, RECORDS, THROUGH
from tests.fuzz.kept import KEPT
from tests.fuzz.runs import EACH, LENGTHS, edges, run_complaint

EXAMPLES = 200
PACKAGE = parse.__name__
PARSERS = Path(parse.__file__ or "").parent


@pytest.mark.parametrize("tool", by_name())
def test_nothing_but_absent_fields_and_unreadable_comes_of_garbled_text(tool: str):
    files = list(recordings(tool))
    for seed in range(EXAMPLES):
        file = files[seed % len(files)]
        words = complaint(tool, file, seed)
        assert words is None, f"python -m tests.fuzz --seed {seed} --file {file} {tool}: {words}"


@pytest.mark.parametrize(("tool", "file", "seed"), KEPT)
def test_what_failed_once_does_not_fail_again(tool: str, file: str, seed: int):
    assert complaint(tool, file, seed) is None


def test_every_recording_is_read_or_says_who_will_read_it():
    later = {
        line.partition(" ")[0]
        for line in (FIXTURES / "later.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    read = {file for tool in by_name() for file in recordings(tool)}
    known = read | later
    left = [
        str(path.relative_to(FIXTURES))
        for path in sorted(FIXTURES.rglob("*"))
        if path.is_file()
        and path.name not in {"README.md", "later.txt"}
        and path.name not in known
        and str(path.relative_to(FIXTURES)) not in known
        and f"{path.parent.name}/" not in known
    ]
    assert left == []


def test_every_reader_has_recordings():
    assert [tool for tool in by_name() if not recordings(tool)] == []


@pytest.mark.parametrize("tool", by_name())
def test_a_long_run_of_one_character_is_read_in_the_time_of_other_text(tool: str):
    for file in edges(tool)[:1]:
        for number in range(EACH):
            words = run_complaint(tool, file, number, LENGTHS[0])
            assert words is None, f"{file}, run {number}: {words}"


def test_a_pattern_that_costs_the_square_of_a_run_is_found(monkeypatch: pytest.MonkeyPatch):
    pattern = re.compile(r"\s+model")
    slow = Tool("os-release", "", pattern.search)
    monkeypatch.setattr(runs, "by_name", lambda: {"os-release": slow})
    found = [run_complaint("os-release", "os_release", number, LENGTHS[0]) for number in range(2)]
    assert [words is not None and "ms a KB" in words for words in found] == [True, True]


def test_every_module_of_readers_is_fuzzed_or_says_why_not():
    modules = {path.stem for path in PARSERS.glob("*.py")} - {"__init__", "catalog", "tool"}
    known = {*MODULES, *(one.module for one in FURTHER), *THROUGH, *RECORDS}
    assert modules - known == set(), "tests/fuzz/further.py: who garbles what these read?"
    assert (set(THROUGH) | RECORDS) - modules == set()


@pytest.mark.parametrize(("module", "tool"), THROUGH.items())
def test_what_is_fuzzed_as_a_part_is_a_part_of_that_reader(module: str, tool: str):
    assert module in _imported(by_name()[tool].read.__module__.rpartition(".")[2])


@pytest.mark.parametrize("module", BY_HAND)
def test_readers_that_are_tested_by_hand_are_there(module: str):
    assert importlib.util.find_spec(module) is not None


def _imported(module: str) -> set[str]:
    """Return which modules of parsers one imports, and those import, by name; it is among them."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        path = PARSERS / f"{name}.py"
        if name in found or not path.is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                left += [str(node.module).rpartition(".")[2], *(one.name for one in node.names)]
    return found
