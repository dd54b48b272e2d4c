"""Everything that dashboards and alerts name is there: metrics, labels, commands, words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from llmgw.base.errors import NotFound
from llmgw.cli.lazy import LazyGroup
from llmgw.cli.main import app
from llmgw.control.config import ServerConfig
from llmgw.observability import promql
from llmgw.observability.alert import Alert
from llmgw.observability.alerts.table import ALERTS
from llmgw.observability.dashboards.table import DASHBOARDS
from llmgw.observability.promql import MATCHINGS, Matcher
from llmgw.observability.scrape import TARGET, scrape_config
from llmgw_agent.parse.cards import THROTTLE_REASONS
from llmgw_agent.parse.ib_values import state
from llmgw_agent.parse.xid_table import IGNORE, RESTART_APPLICATION, WHAT_TO_DO
from tests.fakes.whole_scrape import whole_scrape
from tests.unit.metrics.scraped import parsed
from tests.unit.observability.promised import labels_of_metrics

LABELS = labels_of_metrics()
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SCRAPED = yaml.safe_load(scrape_config(rules_file="r.yml"))

UNTOLD = {"reconcile"}
"""A pass of every control plane; the scrape with everything has another."""


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression, and where it stands."""
    for alert in ALERTS:
        yield alert.name, alert.expr
    for board in DASHBOARDS:
        for panel in board.panels:
            for number, query in enumerate(panel.queries):
                yield f"{board.name}: {panel.title} {number}", query.expr
        for variable in board.variables:
            yield (
                f"{board.name}: ${variable.name}",
                f"count by ({variable.label}) ({variable.selector})",
            )


EXPRESSIONS = dict(expressions())


def wrong_names(expr: str) -> list[str]:
    """Return what an expression names that no scrape holds."""
    wrong = [f"metric {name}" for name in sorted(promql.metrics(expr) - LABELS.keys())]
    for selector in promql.selectors(expr):
        known = LABELS.get(selector.metric, frozenset())
        wrong += [
            f"{selector.metric}{{{label}}}" for label in selector.labels if label not in known
        ]
    for grouping in promql.groupings(expr):
        # What is joined on has to be on two sides, though both may be one metric.
        least = 2 if grouping.word == "on" and len(set(grouping.metrics)) > 1 else 1
        for label in grouping.labels:
            bearers = {one for one in grouping.metrics if label in LABELS.get(one, frozenset())}
            if len(bearers) < least:
                wrong.append(f"{grouping.word} ({label})")
    return wrong


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_metric_and_label_exists(where: str) -> None:
    assert wrong_names(EXPRESSIONS[where]) == []


@pytest.mark.parametrize(
    ("expr", "wrong"),
    [
        ("llmgw_gpu_warmth", ["metric llmgw_gpu_warmth"]),
        ('llmgw_nodes{node="a"}', ["llmgw_nodes{node}"]),
        ("sum by (node) (llmgw_nodes)", ["by (node)"]),
        ("llmgw_nodes * on (node) llmgw_node_load", ["on (node)"]),
        ("llmgw_request_duration_seconds", ["metric llmgw_request_duration_seconds"]),
        ("sum by (le) (llmgw_request_duration_seconds_count)", ["by (le)"]),
    ],
)
def test_a_name_that_does_not_exist_is_found(expr: str, wrong: list[str]) -> None:
    assert wrong_names(expr) == wrong


def test_every_family_of_a_fault_or_a_reading_is_on_a_dashboard_or_in_an_alert() -> None:
    shown = {name for expr in EXPRESSIONS.values() for name in promql.metrics(expr)}
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} | shown
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name in LABELS}
    left = {
        "llmgw_leader_settled",
        "llmgw_leader_term",
        "llmgw_gpu_foreign_processes",
        "llmgw_gpu_nvlinks",
    }
    assert known - bases - left == set()


def told_values() -> dict[tuple[str, str], set[str]]:
    """Return which values labels have: in a scrape with everything, and in what agents read."""
    found: dict[tuple[str, str], set[str]] = {}
    for metric in parsed(whole_scrape()).values():
        for sample in metric.samples:
            for label, value in sample.labels.items():
                found.setdefault((sample.name, label), set()).add(value)
    trees = (FIXTURES / "sys-class-infiniband").glob("*.tsv")
    counters = {c for tree in trees for c in re.findall(r"/counters/(\w+)", tree.read_text())}
    found["llmgw_ib_port_counter_total", "counter"] |= counters
    found["llmgw_ib_port_active", "state"] |= {str(state(s)) for s in ("2: INIT", "3: ARMED")}
    found["llmgw_gpu_throttle_reason", "reason"] |= {words for _, words in THROTTLE_REASONS}
    for name in ("open", "events_total", "last_seen_timestamp_seconds"):
        found[f"llmgw_gpu_xid_{name}", "action"] |= {*WHAT_TO_DO, IGNORE, RESTART_APPLICATION}
    found["up", "job"] = {job["job_name"] for job in SCRAPED["scrape_configs"]}
    return found


TOLD = told_values()
MATCHED = [
    (alert.name, selector.metric, matcher)
    for alert in ALERTS
    for selector in promql.selectors(alert.expr)
    for matcher in selector.matchers
]


@pytest.mark.parametrize(("alert", "metric", "matcher"), MATCHED)
def test_an_alert_asks_for_values_that_are_told(alert: str, metric: str, matcher: Matcher) -> None:
    told = TOLD[metric, matcher.label]
    for value in set(matcher.value.split("|")) - UNTOLD:
        # `!=` names what is left out: that has to be told as well.
        assert [one for one in told if re.fullmatch(value, one)], (value, told)


def commands(text: str) -> Iterator[tuple[str, ...]]:
    for line in re.findall(r"`llmgw ([^`]+)`", text):
        yield tuple(word for word in line.split() if word.islower() and not word.startswith("-"))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)
def test_every_command_that_an_alert_advises_exists(alert: Alert) -> None:
    for words in commands(f"{alert.meaning}{alert.steps}"):
        found = get_command(app)
        for word in words:
            if not isinstance(found, LazyGroup):
                break
            found = found.get_command(None, word)
            if found is None:
                raise NotFound(f"no command: llmgw {' '.join(words)}")


def test_the_target_is_where_a_control_plane_answers() -> None:
    assert ServerConfig().admin == TARGET


def test_joins_are_known_words() -> None:
    assert {"on", "ignoring", "group_left", "group_right"} == MATCHINGS
