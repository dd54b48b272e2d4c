"""`ctl gateway` and `ctl gateways`: what a gateway is, and having its workers restarted."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound, Unreachable
from llmgw.cli import session
from llmgw.cli.main import app

NOW = 1_800_000_000.0
WORKERS = [{"worker": 1, "began": NOW - 60}, {"worker": 0, "began": NOW - 7200}]
THERE = {
    "id": "gw-1",
    "connected": True,
    "url": "https://10.0.0.5:7440",
    "version": "0.1.0",
    "workers": 2,
    "peer": "10.0.0.5:51002",
    "since": NOW - 3600,
    "certificate_ends": NOW + 86400 * 20,
    "started": WORKERS,
}
AWAY = {"id": "gw-2", "connected": False, "since": NOW - 60}


class Cluster:
    """A control plane with two gateways; it notes what it is told."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.refuse: Unreachable | None = None

    def get(self, path: str, query: object = None) -> object:
        assert path == "/gateways"
        return [THERE, AWAY]

    def post(self, path: str, body: object = None) -> object:
        if self.refuse is not None:
            raise self.refuse
        self.done.append((path, body))
        return THERE


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster()
    monkeypatch.setattr(session, "connect", lambda: there)
    monkeypatch.setattr(session, "now", lambda: NOW)
    return there


def ctl(*argv: str) -> Any:
    return CliRunner().invoke(app, ["ctl", *argv])


@pytest.mark.parametrize("argv", [("gateways",), ("gateway", "list")])
def test_the_list_says_when_the_newest_and_the_oldest_worker_began(cluster, argv):
    titles, there, away = ctl(*argv).stdout.splitlines()
    assert "BEGAN" in titles
    assert "1m00s to 2h00m" in there
    assert away.split()[:2] == ["gw-2", "away"]


@pytest.mark.parametrize("argv", [("gateway", "show", "gw-1"), ("gateway", "gw-1")])
def test_one_is_shown_with_each_of_its_workers(cluster, argv):
    told = ctl(*argv).stdout
    assert "connected since 1h" in told
    assert [line.split()[1] for line in told.splitlines() if line.startswith("worker ")] == [
        "0",
        "1",
    ]
    assert json.loads(ctl(*argv, "-o", "json").stdout) == {**THERE, "certificate_begins": None}
    assert ctl(*argv, "-o", "name").stdout == "gw-1\n"


def test_what_a_gateway_does_not_say_is_not_made_up(cluster):
    told = ctl("gateway", "gw-2").stdout
    assert "away since 1m00s ago" in told
    assert "worker 0" not in told


def test_a_restart_says_what_is_replaced_and_a_dry_run_replaces_nothing(cluster):
    dry = ctl("gateway", "restart", "gw-1", "--dry-run")
    assert cluster.done == []
    assert "gw-1: 2 workers, begun 2h00m ago, 1m00s ago, will be replaced" in dry.stderr
    told = ctl("gateway", "restart", "gw-1")
    assert cluster.done == [("/gateways/gw-1/restart", None)]
    assert "they are replaced one after the other" in told.stdout
    data = json.loads(ctl("gateway", "restart", "gw-1", "-o", "json").stdout)
    assert (data["id"], len(data["started"])) == ("gw-1", 2)
    assert json.loads(ctl("gateway", "restart", "gw-1", "--dry-run", "-o", "json").stdout) == data
    assert len(cluster.done) == 2


def test_who_is_not_there_or_cannot_be_told_is_said(cluster):
    assert isinstance(ctl("gateway", "restart", "nope").exception, NotFound)
    assert isinstance(ctl("gateway", "show", "nope").exception, NotFound)
    cluster.refuse = Unreachable("gateway gw-1 is not connected")
    assert ctl("gateway", "restart", "gw-1").exception is cluster.refuse
