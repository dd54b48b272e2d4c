"""`ctl replicas`, `models`, `model` and `status` of replicas that are out of reach or draining."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from llmgw.cli import session
from llmgw.cli.ctl.status import lines
from llmgw.cli.main import app
from tests.fakes.catalog_api import CatalogApi

NOW = 1_800_000_000.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> CatalogApi:
    there = CatalogApi()
    monkeypatch.setattr(session, "connect", lambda: there)
    monkeypatch.setattr(session, "now", lambda: NOW)
    return there


def ctl(*argv: str) -> Any:
    answer = CliRunner().invoke(app, ["ctl", *argv])
    assert answer.exit_code == 0, answer.output
    return answer


def row(cluster: CatalogApi, **more: Any) -> dict[str, str]:
    """The cells of the one replica, by title."""
    cluster.replicas = [{**cluster.replicas[0], **more}]
    titles, cells = ctl("replicas").stdout.splitlines()
    starts = [titles.index(title) for title in titles.split()]
    ends = [*starts[1:], None]
    return {titles[a:b].strip(): cells[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_a_replica_whose_node_is_lost_is_not_listed_as_ready(cluster: CatalogApi) -> None:
    seen = row(cluster, away="lost", away_words="n1 is lost; last known as ready")
    assert (seen["STATE"], seen["WHY"]) == ("lost", "n1 is lost; last known as ready")
    (told,) = json.loads(ctl("replicas", "-o", "json").stdout)
    assert (told["state"], told["away"]) == ("ready", "lost")


def test_a_replica_that_drains_is_listed_with_what_is_left_and_until_when(
    cluster: CatalogApi,
) -> None:
    draining = {"left": 2, "until": NOW + 90}
    seen = row(cluster, state="draining", reason="2 wanted, 3 there", draining=draining)
    assert seen["STATE"] == "draining"
    assert seen["WHY"] == "2 wanted, 3 there; 2 replies left, stopped in 1m30s at the latest"


def test_what_found_no_place_is_listed_with_the_reason_of_every_node(cluster: CatalogApi) -> None:
    words = "n1: 8 GB of memory, needs 24; n2: is cordoned"
    refusal = {"model": "org/qwen", "profile": "big", "words": words, "candidates": []}
    cluster.plan = {"number": 3, "refusals": [refusal]}
    _, refused, runs = ctl("replicas").stdout.splitlines()
    assert refused.split()[:3] == ["-", "org/qwen", "refused"]
    assert refused.endswith(words)
    assert runs.startswith("qwen-1 ")
    assert ctl("replicas", "-o", "name").stdout == "qwen-1\n"
    assert [one["id"] for one in json.loads(ctl("replicas", "-o", "json").stdout)] == ["qwen-1"]
    cluster.replicas = []
    assert len(ctl("replicas").stdout.splitlines()) == 2


def test_a_control_plane_that_says_none_of_it_is_read_all_the_same(cluster: CatalogApi) -> None:
    seen = row(cluster)
    assert (seen["STATE"], seen["WHY"]) == ("ready", "-")


def test_a_model_is_shown_as_yaml_and_what_is_the_matter_beside_it(
    cluster: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ctl("model", "org/qwen")
    assert plain.stderr == ""
    entry: Any = cluster.get("/models/org/qwen")
    told = {**entry, "note": "qwen-1 drains"}
    monkeypatch.setattr(cluster, "get", lambda path, query=None: told)
    noted = ctl("model", "org/qwen")
    assert (noted.stdout, noted.stderr) == (plain.stdout, "org/qwen: qwen-1 drains\n")


def test_models_say_both_why_they_are_not_served_and_what_is_the_matter(
    cluster: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry: Any = cluster.get("/models/org/qwen")
    listed = [{**entry, "wanted": 1, "ready": 0, "reason": "starting", "note": "a is lost"}]
    monkeypatch.setattr(cluster, "get", lambda path, query=None: listed)
    assert ctl("models").stdout.splitlines()[1].endswith("starting; a is lost")


def test_the_status_tells_it_of_each_model() -> None:
    status = {
        "cluster": "lab",
        "server": "head-1",
        "leader": True,
        "version": "0.1.0",
        "term": 1,
        "stopped": False,
        "nodes": {"lost": 1},
        "replicas": {"lost": 1},
        "problems": [],
        "gateways": [{"id": "gw-1", "connected": True}],
        "models": [{"name": "small", "ready": 0, "wanted": 1, "reason": None, "note": "a is lost"}],
    }
    said = lines(status)
    assert "small  0 of 1 ready  a is lost" in said
    assert any(line.endswith("no: 0 of 1 model can answer") for line in said)
    assert any(line.startswith("replicas") and line.endswith("1 lost") for line in said)
