"""What an export writes, and which files it leaves alone."""

import json

import pytest
import yaml

from llmgw.base.errors import Unreadable
from llmgw.observability.export import (
    CHANGED,
    CREATED,
    SAME,
    Options,
    compare,
    files,
    manifest,
)
from llmgw.observability.scrape import scrape_config

MADE = {"a.yml": "new", "b.yml": "new"}


def test_everything_that_prometheus_and_grafana_need_is_exported() -> None:
    made = files(Options())
    assert sorted(made) == [
        "alerts.md",
        "dashboards/llmgw-fabric.json",
        "dashboards/llmgw-fleet.json",
        "dashboards/llmgw-gpu.json",
        "dashboards/llmgw-node.json",
        "dashboards/llmgw-traffic.json",
        "prometheus.yml",
        "rules/llmgw.rules.test.yml",
        "rules/llmgw.rules.yml",
    ]
    assert all(text.endswith("\n") for text in made.values())


def test_files_that_are_not_there_are_created() -> None:
    compared = compare(MADE, {}, None)
    assert compared.outcomes == {"a.yml": CREATED, "b.yml": CREATED}
    assert compared.edited == ()


def test_a_file_as_the_last_export_wrote_it_may_change() -> None:
    old = {"a.yml": "old", "b.yml": "new"}
    compared = compare(MADE, old, manifest(old))
    assert compared.outcomes == {"a.yml": CHANGED, "b.yml": SAME}
    assert compared.edited == ()


def test_a_file_that_somebody_changed_since_is_named() -> None:
    written = {"a.yml": "old", "b.yml": "old"}
    compared = compare(MADE, {**written, "b.yml": "by hand"}, manifest(written))
    assert compared.edited == ("b.yml",)


def test_without_a_manifest_every_other_file_counts_as_somebody_s() -> None:
    assert compare(MADE, {"a.yml": "new", "b.yml": "theirs"}, None).edited == ("b.yml",)


def test_a_file_that_was_changed_to_what_is_written_now_is_nobody_s_loss() -> None:
    compared = compare(MADE, MADE, manifest({"a.yml": "old", "b.yml": "old"}))
    assert compared.edited == ()


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_manifest_that_is_none_is_said(text: str) -> None:
    with pytest.raises(Unreadable, match=r"manifest\.json"):
        compare(MADE, {}, text)


def test_a_manifest_tells_each_file_apart() -> None:
    assert len(set(json.loads(manifest({"a": "1", "b": "2"})).values())) == 2


def test_a_target_on_the_loopback_needs_no_token() -> None:
    config = yaml.safe_load(scrape_config(rules_file="r.yml"))
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:7441"]}]
    assert "authorization" not in job
    assert config["rule_files"] == ["r.yml"]


@pytest.mark.parametrize("target", ["control:7441", "[2001:db8::1]:7441", "10.0.0.1:7441"])
def test_a_target_elsewhere_is_asked_with_a_token(target: str) -> None:
    text = scrape_config((target, "127.0.0.1:7441"), rules_file="r.yml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["authorization"]["credentials_file"] == "/etc/prometheus/llmgw.token"
    assert "ctl token add prometheus --role metrics" in text


def test_a_token_s_file_can_be_named() -> None:
    text = scrape_config(token_file="/srv/token", rules_file="r.yml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["authorization"] == {"type": "Bearer", "credentials_file": "/srv/token"}
