"""`llmgw stop`, `start` and `status`; what would happen is told before it does."""

from typing import Any

import pytest
from typer.testing import CliRunner

from llmgw.cli import session
from llmgw.cli.main import app

LOST = "5 of 6 nodes were lost within a few seconds (a, b, c and 2 more): taken for a fault"


class Cluster:
    """A control plane that notes what it is told."""

    def __init__(self, *, stopped: bool = False, runs: tuple[str, ...] = ("tiny-1",)) -> None:
        self.stopped = stopped
        self.runs = runs
        self.told: list[object] = []
        self.problems: list[dict[str, str]] = []

    def get(self, path: str, query: dict[str, str] | None = None) -> Any:
        if path == "/status":
            return {"cluster": "lab", "stopped": self.stopped, "problems": self.problems}
        if path == "/replicas":
            shards = [{"rank": 0, "node": "n1"}]
            one = {"state": "ready", "shards": shards, "in_flight": 2}
            return [{"id": name, **one} for name in self.runs]
        assert path == "/plan"
        stops = query is not None and query.get("stopped") == "true"
        steps = [{"kind": "drain", "replica": one, "words": "why"} for one in self.runs if stops]
        starts = query is not None and query.get("stopped") == "false"
        sentence = "starts tiny-2 on n1" if starts else "drains"
        return {"number": 8, "parent": 7, "sentence": sentence, "steps": steps, "refusals": []}

    def put(self, path: str, body: object) -> dict[str, Any]:
        self.told.append((path, body))
        return {}

    def post(self, path: str, body: object = None) -> None:
        self.told.append((path, body))


def run(monkeypatch: pytest.MonkeyPatch, there: Cluster, *argv: str, said: str = "") -> str:
    monkeypatch.setattr(session, "connect", lambda: there)
    answer = CliRunner().invoke(app, list(argv), input=said)
    return answer.output if answer.exception is None else f"{answer.output}{answer.exception}"


def test_stopping_says_what_ends_and_asks_for_the_clusters_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Cluster(runs=("tiny-1", "tiny-2"))
    output = run(monkeypatch, there, "stop", "--dry-run")
    words = "2 replicas will end (4 replies in flight): tiny-1 on n1, tiny-2 on n1"
    assert f"{words}; nothing was changed" in output
    assert "503 system_stopped" in output
    run(monkeypatch, there, "stop", said="nonsense\n")
    assert there.told == []
    run(monkeypatch, there, "stop", "--yes")
    assert there.told == [("/settings", {"path": "serving.stopped", "value": True})]


def test_starting_says_what_is_done_first(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Cluster(stopped=True)
    output = run(monkeypatch, there, "start", "--dry-run")
    assert "starts tiny-2 on n1; nothing was changed" in output
    assert there.told == []
    assert "lab serves again" in run(monkeypatch, there, "start")
    assert there.told == [("/settings", {"path": "serving.stopped", "value": False})]


@pytest.mark.parametrize(("command", "stopped"), [("stop", True), ("start", False)])
def test_what_is_so_already_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, command: str, stopped: bool
) -> None:
    there = Cluster(stopped=stopped)
    assert "lab is" in run(monkeypatch, there, command)
    assert there.told == []


def test_a_plan_is_shown_beside_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    output = run(monkeypatch, Cluster(), "ctl", "plan")
    assert "plan 8 after 7: drains" in output
    assert "next: plan 8 after 7: the same" in output
    assert run(monkeypatch, Cluster(), "ctl", "plan", "--next").startswith("next: plan 8")


def test_a_plan_says_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Placing(Cluster):
        def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
            plan = {"number": 8, "parent": 7, "steps": [], "sentence": "can't place big: no room"}
            return {
                **plan,
                "refusals": [
                    {"model": "big", "profile": "default", "words": "no room"},
                    {"model": "huge", "profile": "default", "words": "no room"},
                ],
            }

    assert run(monkeypatch, Placing(), "ctl", "plan").splitlines() == [
        "plan 8 after 7: can't place big: no room",
        "  not placed huge (default): no room",
        "",
        "next: plan 8 after 7: the same",
    ]


def test_a_mass_loss_is_accepted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Cluster()
    assert "no nodes were lost together" in run(monkeypatch, there, "ctl", "node", "accept-loss")
    there.problems = [{"subject": "mass loss", "words": f"{LOST}; if they are gone: accept"}]
    output = run(monkeypatch, there, "ctl", "node", "accept-loss", "--dry-run")
    assert f"{LOST}; nothing was changed" in output
    assert there.told == []
    run(monkeypatch, there, "ctl", "node", "accept-loss", "--yes")
    assert there.told == [("/mass-loss/accept", None)]
