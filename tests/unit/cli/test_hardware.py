"""`llmgw ctl hardware`."""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.cli import session
from llmgw.cli.main import app
from llmgw.model.hardware import HardwareChange

NOW = 1_800_000_000.0
CHANGES = (
    HardwareChange(
        id="1",
        at=NOW - 120,
        until=NOW - 90,
        node="gpu-01",
        kind="port",
        subject="mlx5_0/1",
        before="ACTIVE",
        after="ACTIVE",
        times=5,
        total=12,
        words="port mlx5_0/1: its link went down 5 times and is ACTIVE again",
    ),
    HardwareChange(
        id="2",
        at=NOW - 60,
        until=NOW - 60,
        node="gpu-02",
        kind="xid",
        subject="GPU-1/79",
        times=1,
        total=1,
        words="gpu1: XID 79 (fell off the bus) once: reboot the machine",
    ),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    said: list[dict[str, object]] = []

    def get(path: str, type_: object, /, **query: object) -> object:
        said.append({"path": path, **query})
        return CHANGES

    monkeypatch.setattr(session, "get", get)
    monkeypatch.setattr(session, "now", lambda: NOW)
    return said


def run(*arguments: str) -> str:
    answer = CliRunner().invoke(app, ["ctl", "hardware", *arguments])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_changes_are_a_table_with_how_long_they_lasted(asked):
    lines = run().splitlines()
    assert lines[0].split() == ["WHEN", "LASTED", "NODE", "KIND", "WHAT"]
    assert "30s" in lines[1]
    assert lines[1].endswith("port mlx5_0/1: its link went down 5 times and is ACTIVE again")
    assert lines[2].split()[2:5] == ["-", "gpu-02", "xid"]
    assert asked == [{"path": "/hardware-changes", "node": None, "since": NOW - 86_400}]


def test_one_node_and_another_span_are_asked_for(asked):
    run("gpu-01", "--since", "30m", "-o", "json")
    assert asked == [{"path": "/hardware-changes", "node": "gpu-01", "since": NOW - 1800}]


def test_json_is_as_the_api_gives_it_and_wide_names_subject_and_total(asked):
    assert json.loads(run("-o", "json")) == msgspec.to_builtins(list(CHANGES))
    wide = run("-o", "wide").splitlines()
    assert wide[1].split()[-2:] == ["mlx5_0/1", "12"]


def test_an_error_that_was_heard_of_late_stands_at_the_time_when_it_happened(
    monkeypatch: pytest.MonkeyPatch,
):
    old = msgspec.structs.replace(CHANGES[1], id="3", happened=1_700_000_000.0)
    monkeypatch.setattr(session, "get", lambda *_, **__: (*CHANGES, old))
    monkeypatch.setattr(session, "now", lambda: NOW)
    lines = run().splitlines()
    assert lines[1].startswith("2023-11-1")
    assert len(lines) == 4
