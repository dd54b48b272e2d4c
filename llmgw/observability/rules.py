"""The alerts as a file of rules for Prometheus, and as unit tests for `promtool test rules`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llmgw.observability.alert import Alert, Case, Group
from llmgw.observability.written import to_yaml

PAGE = "docs/operations/alerts.md"
"""Where the product's own documentation says what to do."""

EVERY = "30s"
"""How often rules are evaluated."""

_VALUE = re.compile(r"\{\{\s*\$value\b[^}]*\}\}")
_LABEL = re.compile(r"\{\{\s*\$labels\.(\w+)\s*\}\}")


def rules(groups: Iterable[Group], *, page: str = PAGE) -> str:
    """Return the file of rules.

    Args:
        groups: of the table.
        page: address or path of the page of alerts, to which each `runbook_url` leads.
    """
    written = [
        {"name": g.name, "interval": EVERY, "rules": [_rule(a, page) for a in g.alerts]}
        for g in groups
    ]
    return to_yaml({"groups": written}, head="Alerts of llmgw: `llmgw observability export`.")


def rule_tests(groups: Iterable[Group], *, rules_file: str, page: str = PAGE) -> str:
    """Return the tests of every rule, each alone against its own series.

    Args:
        groups: of the table.
        rules_file: as the tests name it, from where they lie.
        page: as the rules were written with.
    """
    tests = [
        _test(alert, case, number, page)
        for group in groups
        for alert in group.alerts
        for number, case in enumerate(alert.cases, start=1)
    ]
    head = "Unit tests of the rules: promtool test rules FILE"
    return to_yaml(
        {"rule_files": [rules_file], "evaluation_interval": "1m", "tests": tests}, head=head
    )


def _rule(alert: Alert, page: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": annotations(alert, page),
    }


def annotations(alert: Alert, page: str) -> dict[str, str]:
    """Return what an alert says, as templates."""
    return {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": f"{page}#{alert.anchor}",
    }


def _test(alert: Alert, case: Case, number: int, page: str) -> dict[str, Any]:
    return {
        "name": f"{alert.name} {number}: {'fires' if case.fires else 'is silent'}",
        "interval": "1m",
        "input_series": [{"series": s, "values": v} for s, v in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": alert.name,
                "exp_alerts": [_expected(alert, case, labels, page) for labels in case.fires],
            }
        ],
    }


def _expected(alert: Alert, case: Case, labels: Mapping[str, str], page: str) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": alert.severity, **labels},
        "exp_annotations": {
            name: _said(text, labels, case.value) for name, text in annotations(alert, page).items()
        },
    }


def _said(template: str, labels: Mapping[str, str], value: str) -> str:
    with_labels = _LABEL.sub(lambda match: labels.get(match[1], ""), template)
    return _VALUE.sub(lambda _: value, with_labels)
