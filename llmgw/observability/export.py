"""Everything that `llmgw observability export` writes, and which of it may be written."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw.base.errors import Unreadable
from llmgw.observability.alerts.table import GROUPS
from llmgw.observability.dashboards.table import DASHBOARDS
from llmgw.observability.grafana import dashboard_json
from llmgw.observability.page import page
from llmgw.observability.rules import PAGE, rule_tests, rules
from llmgw.observability.scrape import TARGET, scrape_config

MANIFEST = "manifest.json"
"""Hashes of what the last export wrote: what differs from them was changed by somebody."""

RULES = "rules/llmgw.rules.yml"
TESTS = "rules/llmgw.rules.test.yml"

CREATED, CHANGED, SAME = "created", "changed", "unchanged"


@dataclass(frozen=True, slots=True)
class Options:
    """What an export is made for."""

    targets: Sequence[str] = (TARGET,)
    token_file: str | None = None
    page: str = PAGE


def files(options: Options) -> dict[str, str]:
    """Return all files of an export, by their path below its directory."""
    made = {f"dashboards/llmgw-{one.name}.json": dashboard_json(one) for one in DASHBOARDS}
    made[RULES] = rules(GROUPS, page=options.page)
    made[TESTS] = rule_tests(GROUPS, rules_file=RULES.rpartition("/")[2], page=options.page)
    made["prometheus.yml"] = scrape_config(options.targets, options.token_file, rules_file=RULES)
    made["alerts.md"] = page(GROUPS, "llmgw observability export")
    return made


def manifest(made: Mapping[str, str]) -> str:
    """Return the manifest of these files."""
    return json.dumps({name: _hash(text) for name, text in sorted(made.items())}, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an export would do to each file, and which of them somebody changed since the last."""

    outcomes: Mapping[str, str]
    edited: tuple[str, ...]


def compare(made: Mapping[str, str], there: Mapping[str, str], last: str | None) -> Comparison:
    """Return what an export does to the files that are there.

    A file that is as the last export wrote it may be written anew: a newer llmgw has newer rules.
    One that is neither that nor what would be written was changed by hand.

    Args:
        made: what would be written.
        there: of those names, the files that exist.
        last: the manifest of the last export; None when there is none.

    Raises:
        Unreadable: the manifest is none.
    """
    known = {} if last is None else _read(last)
    outcomes = {
        name: CREATED if name not in there else SAME if there[name] == text else CHANGED
        for name, text in made.items()
    }
    edited = tuple(
        name
        for name, outcome in outcomes.items()
        if outcome == CHANGED and known.get(name) != _hash(there[name])
    )
    return Comparison(outcomes=outcomes, edited=edited)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(text: str) -> dict[str, str]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"{MANIFEST}: not JSON: {error}") from error
    if not isinstance(read, dict):
        raise Unreadable(f"{MANIFEST}: no list of files: {text[:60]!r}")
    return {name: value for name, value in read.items() if isinstance(value, str)}
