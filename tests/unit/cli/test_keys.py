"""`ctl key` and `ctl usage`: what they ask for, what they print."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound, Unreadable, Usage
from llmgw.base.system import SystemFiles
from llmgw.cli import session, watching
from llmgw.cli.main import app
from llmgw.gateway.alone_usage import DIRECTORY, AloneUsage
from llmgw.model.keys import UsageTotals
from tests.fakes import flows
from tests.fakes.clock import FakeClock
from tests.fakes.feed import built

KEY = {
    "id": "k1",
    "sha256": "ab" * 32,
    "name": "batch jobs",
    "created": 0.0,
    "models": ["m"],
    "requests_per_minute": 60,
    "tokens_per_day": 1000,
    "priority": 2,
}
SUMS = [
    {
        "start": 1_800_000_000.0 - 1_800_000_000.0 % 86400,
        "key": "k1",
        "model": None,
        "requests": 3,
        "prompt_tokens": 21,
        "completion_tokens": 9,
        "cancelled": 1,
        "estimated": 0,
        "failed": 0,
    }
]


class Cluster:
    """A control plane with one key; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    def get(self, path: str, query: object = None) -> object:
        self.asked.append((path, query))
        use = {"id": "k1", "used": {"requests_per_minute": 59}, "over": True}
        answers = {"/keys": [KEY], "/quotas": [use], "/usage/sums": SUMS, "/models": []}
        return {**answers, "/key-use": built(flows.STANDINGS)}[path]

    def post(self, path: str, body: object = None) -> object:
        self.asked.append((path, body))
        return {**KEY, "key": "llmgw_k1_secret"}

    def put(self, path: str, body: object, *, version: int | None = None) -> object:
        self.asked.append((path, body))
        return KEY


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster()
    monkeypatch.setattr(session, "connect", lambda: there)
    monkeypatch.setattr(session, "now", lambda: 1_800_000_000.0)
    return there


def run(*argv: str):
    return CliRunner().invoke(app, ["ctl", *argv])


def test_a_key_is_made_with_its_limits(cluster: Cluster) -> None:
    answer = run(
        *("key", "add", "lab", "--requests-per-minute", "60", "--tokens-per-day", "1_000_000"),
        *("--priority", "-1"),
    )
    assert answer.exit_code == 0
    asked = {"name": "lab", "requests_per_minute": 60, "tokens_per_day": 1_000_000, "priority": -1}
    assert cluster.asked == [("/keys", asked)]


def test_an_edit_says_only_what_changes_and_none_is_null(cluster: Cluster) -> None:
    answer = run(
        *("key", "edit", "k1", "--concurrent", "none", "--expires", "never", "--all-models")
    )
    assert answer.exit_code == 0
    asked = {"concurrent": None, "expires_in": None, "models": None}
    assert cluster.asked == [("/keys/k1", asked)]
    assert "k1 is changed" in answer.output


@pytest.mark.parametrize(
    "argv",
    [
        ("key", "edit", "k1"),
        ("key", "edit", "k1", "--concurrent", "0"),
        ("key", "edit", "k1", "--concurrent", "many"),
        ("key", "edit", "k1", "--all-models", "--model", "m"),
        ("usage", "--since", "2026-13-01"),
        ("usage", "--until", "soon"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    argv: tuple[str, ...], cluster: Cluster
) -> None:
    assert isinstance(run(*argv).exception, Usage)
    assert cluster.asked == []


def test_a_key_is_shown_with_what_it_used(cluster: Cluster) -> None:
    answer = run("key", "show", "k1")
    assert "59 of 60 requests per minute" in answer.output
    assert "- of 1000 tokens per day" in answer.output
    assert "over its limits" in answer.output
    assert json.loads(run("key", "show", "k1", "-o", "json").output)["over"] is True
    assert isinstance(run("key", "show", "nope").exception, NotFound)


def test_limits_stand_in_the_wide_list(cluster: Cluster) -> None:
    assert "60 requests/min, 1000 tokens/day" in run("keys", "-o", "wide").output


def test_what_keys_used_is_listed_also_of_those_that_were_revoked(cluster: Cluster) -> None:
    lines = run("keys", "--use").output.splitlines()
    assert len(lines) == 1 + len(flows.STANDINGS)
    assert lines[2].split() == [
        "batch00001", "nightly", "batch", "2m10s", "88", "53345", "1300", "800000", "17", "yes",
    ]  # fmt: skip
    assert lines[4].split() == ["new0000001", "ünused", "-", "0", "0", "0", "0", "-", "no"]
    assert "(revoked)" in lines[5]
    assert json.loads(run("keys", "--use", "-o", "json").output) == built(flows.STANDINGS)


@pytest.mark.parametrize(("argv", "seen"), [((), "batch jobs"), (("--use",), "nightly batch")])
def test_keys_are_listed_again_and_again(
    argv: tuple[str, ...], seen: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled: list[list[str]] = []
    monkeypatch.setattr(watching, "poll", lambda fetch, show, output: polled.append(show(fetch())))
    assert run("keys", "--watch", *argv).exit_code == 0
    ((head, *rows),) = polled
    assert head.startswith("KEY")
    assert any(seen in row for row in rows)


def test_usage_is_asked_for_by_what_is_told_apart_and_printed_as_csv(cluster: Cluster) -> None:
    answer = run("usage", "--by", "day,key", "--since", "2027-01-01", "--until", "1h", "-o", "csv")
    ((path, query),) = cluster.asked
    assert path == "/usage/sums"
    assert query == {"since": 1_798_761_600.0, "until": 1_799_996_400.0, "by": "day,key"}
    head, row = answer.output.splitlines()
    assert head.startswith("start,key,model,requests,prompt_tokens")
    assert row == "2027-01-15T00:00:00+00:00,k1,,3,21,9,1,0,0"
    run("usage", "--key", "k1")
    _, asked = cluster.asked[-1]
    assert isinstance(asked, dict)
    assert asked["key"] == "k1"
    table = run("usage", "--by", "day,key").output
    assert "2027-01-15" in table
    assert "MODEL" not in table


HOUR = 1_799_996_400


def test_usage_of_a_gateway_alone_is_read_from_its_own_files(
    cluster: Cluster, tmp_path: Path
) -> None:
    files, clock = SystemFiles(), FakeClock(HOUR - 3600.0)
    kept = AloneUsage(tmp_path / DIRECTORY, files, clock)
    kept.count(0, [UsageTotals(key="k1", model="m", requests=2, completion_tokens=9)])
    kept.save()
    clock.jump(3600.0)
    kept.count(0, [UsageTotals(key="k1", model="m", requests=3, completion_tokens=20)])
    kept.save()
    answer = run("usage", "--alone", str(tmp_path), "--by", "hour,key", "-o", "json")
    rows = [(row["start"], row["key"], row["requests"]) for row in json.loads(answer.output)]
    assert rows == [(HOUR - 3600, "k1", 2), (HOUR, "k1", 1)]
    (sums,) = json.loads(run("usage", "--alone", str(tmp_path), "--by", "", "-o", "json").output)
    assert (sums["requests"], sums["completion_tokens"]) == (3, 20)
    now = run("usage", "--alone", str(tmp_path), "--since", "10m", "--by", "key", "-o", "json")
    assert [row["requests"] for row in json.loads(now.output)] == [1]


def test_where_no_gateway_kept_anything_it_is_said(cluster: Cluster, tmp_path: Path) -> None:
    failed = run("usage", "--alone", str(tmp_path)).exception
    assert isinstance(failed, NotFound)
    assert "no gateway has kept usage there" in failed.message
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / f"{HOUR}.hour").write_bytes(b"broken")
    assert isinstance(run("usage", "--alone", str(tmp_path)).exception, Unreadable)
