"""`llmgw simulate`, on a cluster's answer and on a file."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound, Unreadable, Usage
from llmgw.cli import session
from llmgw.cli.main import app
from llmgw.plan.whatif import Snapshot
from tests.unit.plan.fleet import model
from tests.unit.plan.test_whatif import nodes, serving


class Cluster:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = msgspec.to_builtins(snapshot)

    def get(self, path: str, query: object = None) -> object:
        assert path == "/snapshot"
        return self.snapshot


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster(serving(nodes("a", "b", "c"), model("m", gpus=2, replicas=2)))
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


def run(*argv: str, **more: Any) -> Any:
    return CliRunner().invoke(app, ["simulate", *argv], **more)


def test_each_node_alone_is_a_line(cluster: Cluster) -> None:
    answer = run()
    assert answer.exit_code == 0, answer.output
    head, *rows = answer.stdout.splitlines()
    assert head.split()[:3] == ["NODE", "LOSES", "ANEW"]
    assert [row.split()[0] for row in rows] == ["a", "b", "c"]
    assert sorted(row.split()[1] for row in rows) == ["0", "1", "1"]


def test_nodes_that_go_together_are_told_with_what_is_placed_anew(cluster: Cluster) -> None:
    answer = run("--lose", "a", "--lose", "b")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("2 of 3 nodes gone")
    assert run("--half").stdout.startswith("2 of 3 nodes gone")


def test_a_saved_fleet_is_read_again_without_a_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.json"
    assert run("--save", str(file)).exit_code == 0
    live = run("--lose", "a", "-o", "json").stdout
    monkeypatch.setattr(session, "connect", lambda: pytest.fail("asks the cluster"))
    assert run("--from-snapshot", str(file), "--lose", "a", "-o", "json").stdout == live
    piped = run("--from-snapshot", "-", "--lose", "a", "-o", "json", input=file.read_bytes())
    assert piped.stdout == live


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("--lose", "nope"), NotFound),
        (("--leaf", "leaf-1"), NotFound),
        (("--each", "--half"), Usage),
        (("--from-snapshot", "/nope.json"), NotFound),
    ],
)
def test_what_can_not_be_is_said(
    cluster: Cluster, argv: tuple[str, ...], error: type[Exception]
) -> None:
    assert isinstance(run(*argv).exception, error)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster": 1}', "[" * 100_000])
def test_a_file_that_is_no_fleet_is_refused(cluster: Cluster, tmp_path: Path, text: str) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(text)
    assert isinstance(run("--from-snapshot", str(file)).exception, Unreadable)


def changed(snapshot: dict[str, Any], what: str) -> None:
    """Change something of a fleet so that it can't be one."""
    profile = snapshot["desired"]["models"][0]["model"]["profiles"][0]
    observed = snapshot["observed"]
    match what:
        case "profile":
            profile |= {"gpus": -1, "replicas": -3, "nodes": 0, "min_memory_gb": -1}
        case "too many":
            profile["replicas"] = 10**9
        case "model twice":
            snapshot["desired"]["models"] *= 2
        case "node twice":
            observed["nodes"].append(observed["nodes"][0])
        case "replica twice":
            observed["replicas"].append(observed["replicas"][0])
        case "no shards":
            observed["replicas"][0]["shards"] = []
        case _:
            pytest.fail(what)


@pytest.mark.parametrize(
    ("what", "paths"),
    [
        ("profile", ("profiles[0].gpus", "profiles[0].replicas", "profiles[0].nodes")),
        ("too many", ("profiles[0].replicas",)),
        ("model twice", ("desired.models",)),
        ("node twice", ("observed.nodes",)),
        ("replica twice", ("observed.replicas",)),
        ("no shards", ("observed.replicas[0].shards",)),
    ],
)
def test_a_fleet_that_can_not_be_is_refused_with_all_that_is_wrong(
    cluster: Cluster, tmp_path: Path, what: str, paths: tuple[str, ...]
) -> None:
    file = tmp_path / "fleet.json"
    assert run("--save", str(file)).exit_code == 0
    snapshot = json.loads(file.read_bytes())
    changed(snapshot, what)
    file.write_text(json.dumps(snapshot))
    answer = run("--from-snapshot", str(file))
    assert isinstance(answer.exception, Unreadable), answer.output
    for path in paths:
        assert path in answer.output
