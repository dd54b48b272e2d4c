"""A real Prometheus scrapes a real control plane: dashboards and alerts show what they should.

The last test kills gateway and control plane; those before it look at the same cluster.
"""

import math
from typing import Any

import pytest

from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import COUNTER, HISTOGRAM
from llmgw.local.cluster import kill
from llmgw.observability import promql
from llmgw.observability.alert import Alert
from llmgw.observability.alerts.table import ALERTS
from llmgw.observability.dashboards.table import DASHBOARDS
from tests.real.cluster.watching import ctl
from tests.real.prometheus import expected
from tests.real.prometheus.watched import WHOLE, Series, Watched, sysfs_has_ports, why_not
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

PANELS = {f"{board.name}: {p.title}": p for board in DASHBOARDS for p in board.panels}

OF_PORTS = ("fabric: ", "llmgw_ib_", "llmgw_fabric_")

COUNTERS = [
    name
    for family in FAMILIES
    for name in {
        COUNTER: (family.name,),
        HISTOGRAM: tuple(f"{family.name}_{part}" for part in ("bucket", "sum", "count")),
    }.get(family.kind, ())
]


def nodes_of(found: list[Series]) -> frozenset[str]:
    return frozenset(one.labels["node"] for one in found if "node" in one.labels)


def test_every_panel_has_an_expectation_of_each_of_its_queries() -> None:
    assert {name: len(panel.queries) for name, panel in PANELS.items()} == {
        name: len(each) for name, each in expected.PANELS.items()
    }


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_has_data_where_it_should_and_none_where_nothing_is_read(
    name: str, watched: Watched
) -> None:
    if name.startswith(OF_PORTS) and sysfs_has_ports():
        pytest.skip("this machine has ports of its own, which every agent sees")
    for query, wanted in zip(PANELS[name].queries, expected.PANELS[name], strict=True):
        found = watched.prometheus.query(query.expr)
        if wanted == expected.BY_MACHINE:
            continue
        if isinstance(wanted, frozenset) and watched.no_whole:
            wanted -= {WHOLE}
        if wanted is expected.SOME:
            assert found, query.expr
            _is_a_number(query.expr, watched)
        else:
            assert nodes_of(found) == wanted, query.expr
            assert bool(found) == bool(wanted), query.expr
    if name in expected.SERIES:
        assert len(_of(name, watched, whole=False)) == expected.SERIES[name]
    if name in expected.SERIES_OF_WHOLE and not watched.no_whole:
        assert len(_of(name, watched, whole=True)) == expected.SERIES_OF_WHOLE[name]


def _of(name: str, watched: Watched, *, whole: bool) -> list[Series]:
    """Return the series of a panel's first query that are, or are not, of the recorded machine."""
    found = watched.prometheus.query(PANELS[name].queries[0].expr)
    return [one for one in found if (one.labels.get("node") == WHOLE) == whole]


def _is_a_number(expr: str, watched: Watched) -> None:
    """Check that there is a number among the values: rates need requests of just now."""

    def numbers() -> list[float]:
        found = [one.value for one in watched.prometheus.query(expr)]
        return [value + 1 for value in found if math.isfinite(value)]

    if not numbers():
        watched.traffic(1)
        wait_for(numbers, 20, what=expr)


def test_prometheus_evaluates_every_rule_without_an_error(watched: Watched) -> None:
    def evaluated() -> list[dict[str, Any]]:
        groups = watched.prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        done = all(rule["health"] != "unknown" for rule in rules)
        return rules if done else []

    rules = wait_for(evaluated, 20)
    assert {rule["name"] for rule in rules} == {alert.name for alert in ALERTS}
    assert [rule for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)
def test_an_alert_holds_exactly_where_it_should(alert: Alert, watched: Watched) -> None:
    if alert.name in expected.HOLDS_BY_MACHINE:
        pytest.skip("what it says is of the machine that the test runs on")
    found = watched.prometheus.query(alert.expr)
    wanted = [
        labels.items()
        for labels in expected.HOLDS.get(alert.name, ())
        if labels.get("node") != WHOLE or not watched.no_whole
    ]
    held = [one.labels.items() for one in found]
    assert [items for items in held if not any(labels <= items for labels in wanted)] == []
    assert [labels for labels in wanted if not any(labels <= items for items in held)] == []


def test_an_alert_s_metrics_are_there_unless_nothing_is_read(watched: Watched) -> None:
    named = {name for alert in ALERTS for name in promql.metrics(alert.expr)}
    there = {name for name in named if watched.prometheus.query(f"count({name})")}
    skipped = expected.OF_WHOLE if watched.no_whole else set()
    if sysfs_has_ports():
        skipped |= {name for name in named if name.startswith(OF_PORTS)}
    assert named - there - skipped == expected.ABSENT - skipped


def test_the_recorded_machine_is_told_of_as_it_was_recorded(watched: Watched) -> None:
    if watched.no_whole:
        pytest.skip(watched.no_whole)
    said = ctl(watched.cluster, "node", WHOLE)
    for words in expected.WHOLE_PAGE:
        assert words in said, said
    for words in expected.ONCE:
        assert said.count(words) <= 1, said
    day, error = expected.HARDWARE
    (line,) = [one for one in ctl(watched.cluster, "hardware", WHOLE).splitlines() if error in one]
    assert line.startswith(day)


def test_an_alert_that_holds_waits_for_its_time_and_says_where_to_read_on(
    watched: Watched,
) -> None:
    def pending() -> list[dict[str, Any]]:
        alerts = watched.prometheus.ask("alerts")["alerts"]
        return [a for a in alerts if a["labels"]["alertname"] == "LlmgwGpuHeldIdle"]

    (alert,) = wait_for(pending, 20)
    assert alert["state"] == "pending"
    assert alert["labels"]["severity"] == "info"
    assert alert["annotations"]["summary"].startswith(f"{expected.UNASKED} holds GPU ")
    assert alert["annotations"]["runbook_url"] == "docs/operations/alerts.md#llmgwgpuheldidle"


def newest(watched: Watched) -> dict[tuple[str, ...], float]:
    """Return the newest value of every series of every counter."""
    return {
        (name, *(f"{k}={v}" for k, v in sorted(one.labels.items()))): one.value
        for name in COUNTERS
        for one in watched.prometheus.query(name)
    }


def test_no_counter_falls_when_gateway_and_control_plane_are_killed(watched: Watched) -> None:
    before = newest(watched)
    assert {key[0] for key in before} >= {
        "llmgw_requests_total",
        "llmgw_tokens_total",
        "llmgw_request_duration_seconds_bucket",
        "llmgw_gpu_ecc_errors_total",
    }
    services = watched.cluster.owner.services
    watched.traffic(1)
    kill(services["gateway"])
    watched.cluster.start_gateway()
    wait_for(watched.user.works, 30, what="the gateway serves again")
    watched.traffic(1)
    kill(services["server"])
    watched.until('1 - up{job="llmgw"}', 1)
    watched.cluster.start_server()
    watched.until('up{job="llmgw"}', 1)
    watched.until("llmgw_leader_settled", 1)
    watched.until("llmgw_gateway_up", 1)
    wait_for(watched.user.works, 30)
    watched.traffic(2)
    asked = f'sum(llmgw_requests_total{{model="{expected.ASKED}",code="200"}})'
    told = sum(v for key, v in before.items() if key[0] == "llmgw_requests_total")
    watched.until(asked, told + 4)
    wait_for(lambda: before.keys() <= newest(watched).keys(), 90, what="every series is back")
    after = newest(watched)
    assert [key for key, value in before.items() if after[key] < value] == []
    assert watched.prometheus.value("changes(process_start_time_seconds[15m])") >= 1
    fell = [name for name in COUNTERS if watched.prometheus.value(f"resets({name}[15m])")]
    assert fell == []
