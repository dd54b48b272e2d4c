"""The table of alerts: each says what to do, leads to its page, and is tested both ways."""

import re
from pathlib import Path

import pytest
import yaml

from llmgw.observability.alert import SEVERITIES, Alert
from llmgw.observability.alerts.table import ALERTS, GROUPS
from llmgw.observability.page import page
from llmgw.observability.rules import PAGE, rule_tests, rules

ROOT = Path(__file__).resolve().parents[3]
WRITTEN = (ROOT / PAGE).read_text(encoding="utf-8")
RULES = yaml.safe_load(rules(GROUPS))
TESTS = yaml.safe_load(rule_tests(GROUPS, rules_file="r.yml"))

WANTED = {
    "TEL-5": {
        "LlmgwGpuXid",
        "LlmgwGpuUncorrectedEcc",
        "LlmgwGpuRowRemapFailed",
        "LlmgwGpuRowRemapPending",
        "LlmgwGpuNvlinkErrors",
        "LlmgwGpuThermalThrottle",
    },
    "TEL-5a": {"LlmgwGpuHeldIdle", "LlmgwModelIdle", "LlmgwGpuNoSample", "LlmgwGpuMemoryFull"},
}

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub and Grafana's renderers give headings."""
    heads = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_alerts_that_are_promised_are_there() -> None:
    names = {alert.name for alert in ALERTS}
    assert len(names) == len(ALERTS)
    for promised in WANTED.values():
        assert promised <= names


@each_alert
def test_an_alert_fires_in_one_test_and_is_silent_in_another(alert: Alert) -> None:
    assert any(case.fires for case in alert.cases)
    assert any(not case.fires for case in alert.cases)


@each_alert
def test_an_alert_has_a_severity_that_people_route_by_and_says_what_to_do(alert: Alert) -> None:
    assert alert.severity in SEVERITIES
    assert alert.name.startswith("Llmgw")
    assert alert.meaning.endswith(".")
    assert alert.description.endswith(".")
    assert not alert.summary.endswith(".")
    assert alert.steps.count("- ") >= 1


@each_alert
def test_a_runbook_s_address_leads_to_a_heading_of_the_page(alert: Alert) -> None:
    written = [r for group in RULES["groups"] for r in group["rules"] if r["alert"] == alert.name]
    assert len(written) == 1
    path, _, anchor = written[0]["annotations"]["runbook_url"].partition("#")
    assert path == "docs/operations/alerts.md"
    assert anchor in anchors(WRITTEN)


def test_links_within_the_page_lead_somewhere() -> None:
    linked = set(re.findall(r"\]\(#([^)]+)\)", WRITTEN))
    assert {alert.anchor for alert in ALERTS} <= linked <= anchors(WRITTEN)


def test_the_page_that_is_kept_is_as_the_table_says() -> None:
    assert page(GROUPS, "python docs/generate.py") == WRITTEN


@each_alert
def test_a_template_names_labels_that_its_tests_have(alert: Alert) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description))
    for case in alert.cases:
        for labels in case.fires:
            assert named <= labels.keys()


def test_a_value_s_template_is_filled_in_the_expectation() -> None:
    said = [
        text
        for test in TESTS["tests"]
        for expected in test["alert_rule_test"][0]["exp_alerts"]
        for text in expected["exp_annotations"].values()
    ]
    assert said
    assert not [text for text in said if "{{" in text or "  " in text]


def test_the_page_s_address_can_be_another() -> None:
    text = rules(GROUPS, page="https://wiki.example/alerts")
    assert "runbook_url: https://wiki.example/alerts#llmgwgpuxid" in text
    assert PAGE not in text
