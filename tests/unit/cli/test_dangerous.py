"""Whatever ends replicas or shuts somebody out says so first, and asks."""

from typing import Any

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound, Usage
from llmgw.cli import session
from llmgw.cli.main import app

DANGEROUS = (
    "stop",
    "ctl model add",
    "ctl model rm",
    "ctl model edit",
    "ctl model scale",
    "ctl model resources",
    "ctl model restart",
    "ctl model serve",
    "ctl node drain",
    "ctl node rm",
    "ctl node accept-loss",
    "ctl key rm",
    "ctl token rm",
)


@pytest.mark.parametrize("command", DANGEROUS)
def test_each_dangerous_command_has_a_dry_run_and_a_way_past_the_question(command: str) -> None:
    told = CliRunner().invoke(app, [*command.split(), "--help"]).output
    assert "--dry-run" in told
    assert "--yes" in told


SHARDS = [{"rank": 0, "node": "n1"}]


class Cluster:
    """A control plane with two nodes and what runs on the first."""

    def __init__(self) -> None:
        self.replicas: list[dict[str, Any]] = [
            {"id": "a-1", "model": "a", "state": "ready", "shards": SHARDS, "in_flight": 1},
            {"id": "b-1", "model": "b", "state": "draining", "shards": SHARDS, "in_flight": 0},
            {"id": "c-1", "model": "c", "state": "failed", "shards": SHARDS},
        ]
        self.done: list[object] = []

    def get(self, path: str, query: object = None) -> object:
        if path == "/replicas":
            return self.replicas
        if path in ("/nodes/n1", "/nodes/n2"):
            return {"id": path.removeprefix("/nodes/"), "inventory": {}}
        raise NotFound(f"nothing at {path}")

    def post(self, path: str, body: Any = None) -> object:
        self.done.append((path, body))
        return {"id": "n1", "inventory": {}, "wish": body["wish"]}

    def delete(self, path: str) -> None:
        self.done.append(path)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster()
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


def ctl(*argv: str) -> Any:
    return CliRunner().invoke(app, ["ctl", *argv])


@pytest.mark.parametrize(
    ("argv", "words", "done"),
    [
        (
            ("node", "drain", "n1"),
            (
                "n1: 1 replica will move (1 reply in flight): a-1 on n1; each serves until "
                "another does in its place"
            ),
            ("/nodes/n1/wish", {"wish": "draining"}),
        ),
        (
            ("node", "rm", "n1"),
            (
                "n1: its certificate will be denied; 2 replicas will not be used any more (1 reply "
                "in flight): a-1 on n1, b-1 on n1; the engines run on until its agent is told "
                "otherwise"
            ),
            "/nodes/n1",
        ),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_what_runs_on_a_node_is_named_before_it_goes(
    cluster: Cluster, argv: tuple[str, ...], words: str, done: object
) -> None:
    assert ctl(*argv, "--dry-run").stderr == f"{words}; nothing was changed\n"
    asked = ctl(*argv)
    assert isinstance(asked.exception, Usage)
    assert asked.stderr.startswith(words)
    assert cluster.done == []
    assert ctl(*argv, "--yes").exit_code == 0
    assert cluster.done == [done]


def test_a_node_on_which_nothing_runs_is_drained_without_asking(cluster: Cluster) -> None:
    assert ctl("node", "drain", "n2").exit_code == 0
    assert "no replica will move" in ctl("node", "drain", "n2", "--dry-run").stderr
    assert cluster.done == [("/nodes/n2/wish", {"wish": "draining"})]
