"""`ctl requests` and `ctl traffic`: what they ask for, print, and ask before they end any."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound, PartlyDone, Refused, Unreachable, Usage
from llmgw.cli import session, watching
from llmgw.cli.main import app
from llmgw.cli.options import Format
from tests.fakes import flows
from tests.fakes.feed import built

ALL: Any = built(flows.in_flight())


class Cluster:
    """A control plane with four requests in flight; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.done: list[tuple[str, Any]] = []
        self.flow = flows.flowing()
        self.gone: tuple[str, ...] = ()
        self.silent: list[dict[str, str]] = []

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        self.asked.append((path, asked))
        if path == "/traffic":
            return built(self.flow)
        assert path == "/requests"
        ids = asked.get("ids")
        wanted = {ids} if isinstance(ids, str) else set(ids or ())
        found = [
            one
            for one in ALL["requests"]
            if (not wanted or one["id"] in wanted) and asked.get("key") in {None, one["key_name"]}
        ]
        shown = found[: asked.get("limit")]
        return {**ALL, "matching": len(found), "requests": shown}

    def post(self, path: str, body: Any = None) -> Any:
        self.done.append((path, body))
        ids = body["ids"]
        return {
            "cancelled": [one for one in ids if one not in self.gone],
            "gone": [one for one in ids if one in self.gone],
            "silent": self.silent,
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster()
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


def ctl(*argv: str) -> Any:
    return CliRunner().invoke(app, ["ctl", *argv])


@pytest.mark.parametrize("argv", [("requests",), ("requests", "list")])
def test_the_list_says_how_far_each_is_and_which_gateway_is_silent(cluster, argv):
    done = ctl(*argv)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["REQUEST", "KEY", "MODEL", "STATE"]
    assert "req-b-1" in lines[3]
    assert "queued 1" in lines[3]
    assert "gateway gw-2: it is not connected" in done.stderr
    assert cluster.asked == [("/requests", {"limit": 200})]


def test_what_is_asked_for_is_handed_on_and_what_is_left_off_is_said(cluster):
    done = ctl("requests", "-k", "lab", "-m", "m", "--node", "n", "--limit", "1", "--newest")
    asked = {"key": "lab", "model": "m", "node": "n", "limit": 1, "newest": "true"}
    assert cluster.asked == [("/requests", asked)]
    assert "1 of 2 are shown" in done.stderr
    assert json.loads(ctl("requests", "-o", "json").stdout) == ALL
    assert ctl("requests", "-o", "name").stdout.split()[0] == "req-a-2"


def test_one_is_shown_with_all_that_is_known(cluster):
    done = ctl("requests", "show", "req-b-1")
    assert done.exit_code == 0
    told = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert told["key"] == "nightly batch (batch00001)"
    assert told["state"] == "queued, at place 1, for 800ms"
    assert told["replica"] == "none yet"
    assert told["path"] == "/v1/completions, streamed"
    assert "tokens" not in told, "what is not known is no zero"
    assert ctl("requests", "show", "req-a-1").stdout.count("about 183") == 1
    assert json.loads(ctl("requests", "show", "req-a-1", "-o", "json").stdout)["id"] == "req-a-1"


def test_one_that_is_not_there_may_be_at_a_gateway_that_is_silent(cluster):
    done = ctl("requests", "show", "req-none")
    assert isinstance(done.exception, NotFound)
    assert done.exception.hint == "gateway gw-2: it is not connected"


def test_a_dry_run_says_what_would_end_and_ends_nothing(cluster):
    done = ctl("requests", "cancel", "--key", "lab", "--dry-run")
    assert done.exit_code == 0
    assert "2 requests will be ended: req-a-2 of lab on gemma3-270m, prefill" in done.stderr
    assert "nothing was changed" in done.stderr
    assert cluster.done == []


def test_without_somebody_to_ask_nothing_is_ended_unless_yes_is_said(cluster):
    done = ctl("requests", "cancel", "req-a-1")
    assert isinstance(done.exception, Usage)
    assert cluster.done == []
    done = ctl("requests", "cancel", "req-a-1", "req-b-1", "--yes")
    assert done.stdout == "2 requests cancelled\n"
    (path, body) = cluster.done[0]
    assert path == "/requests/cancel"
    assert sorted(body["ids"]) == ["req-a-1", "req-b-1"]


@pytest.mark.parametrize(
    "argv", [(), ("req-a-1", "--key", "lab"), tuple(f"r{number}" for number in range(1001))]
)
def test_which_requests_has_to_be_said_in_one_way(cluster, argv):
    assert isinstance(ctl("requests", "cancel", *argv, "--yes").exception, Usage)
    assert cluster.done == []


@pytest.mark.parametrize("command", [(), ("list",), ("cancel", "--yes")])
def test_a_state_that_there_is_not_is_refused_and_nobody_is_asked(cluster, command):
    answer = ctl("requests", *command, "--state", "bogus")
    assert isinstance(answer.exception, Usage)
    assert "queued, connecting, prefill, streaming" in str(answer.exception)
    assert (cluster.asked, cluster.done) == ([], [])


def test_usage_is_told_apart_by_what_there_is(cluster):
    answer = ctl("usage", "--by", "hour,weekday")
    assert isinstance(answer.exception, Usage)
    assert "weekday" in str(answer.exception)


def test_one_that_is_named_and_not_there_ends_none(cluster):
    done = ctl("requests", "cancel", "req-a-1", "req-none", "--yes")
    assert isinstance(done.exception, NotFound)
    assert isinstance(ctl("requests", "cancel", "--key", "nobody", "--yes").exception, NotFound)
    assert cluster.done == []


def test_those_that_ended_meanwhile_are_told_and_unsure_ones_are_partly_done(cluster):
    cluster.gone = ("req-a-1",)
    done = ctl("requests", "cancel", "--key", "lab", "--yes")
    assert done.exit_code == 0
    assert "1 request ended meanwhile" in done.stderr
    cluster.silent = [{"gateway": "gw-2", "words": "it did not answer within 3 s"}]
    done = ctl("requests", "cancel", "--key", "lab", "--yes")
    assert isinstance(done.exception, PartlyDone)
    assert "gateway gw-2: it did not answer within 3 s" in done.stderr


def test_traffic_says_rates_times_queue_and_errors(cluster):
    done = ctl("traffic", "--window", "120")
    assert done.exit_code == 0
    assert cluster.asked == [("/traffic", {"window": 120.0})]
    text = done.stdout
    assert "4, 1 of them waiting, the oldest for 800ms" in text
    assert "p50 100ms, p95 800ms, p99 960ms" in text
    assert "23 over_tokens_per_minute, 2 invalid_api_key" in text
    assert "! gateway gw-2 is away: what it does is not known" in text
    assert "(no model)" in text
    assert json.loads(ctl("traffic", "-o", "json").stdout) == built(flows.flowing())
    assert ctl("traffic", "-o", "name").stdout.split() == ["gemma3-270m", flows.OTHER]


def test_what_was_not_measured_is_printed_as_unknown(cluster):
    whole = msgspec.structs.replace(
        flows.resting().whole, requests_per_second=None, completion_tokens_per_second=None
    )
    cluster.flow = msgspec.structs.replace(flows.resting(), window=0.0, whole=whole)
    lines = dict(line.split(None, 1) for line in ctl("traffic").stdout.splitlines()[:4])
    assert lines["requests"] == "-/s, 0 ended"
    assert lines["tokens"].endswith("-/s out")


# Asking again and again.


class Answers:
    """What is asked for again and again; the last answer ends it."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter((*answers, Refused("enough")))

    def __call__(self) -> Any:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL", 0.0)


@pytest.mark.usefixtures("_at_once")
def test_a_pipe_gets_the_lines_that_are_new_and_a_loss_is_told_once(capsys) -> None:
    away = Unreachable("nothing listens")
    fetch = Answers(["a"], ["a"], away, away, ["a", "b"])
    with pytest.raises(Refused, match="enough"):
        watching.poll(fetch, list)
    told = capsys.readouterr()
    assert told.out == "a\nb\n"
    assert told.err.count("not connected: nothing listens") == 1
    assert told.err.count("connected\n") == 1


@pytest.mark.usefixtures("_at_once")
def test_as_json_each_answer_is_a_line_and_other_forms_are_refused(capsys) -> None:
    with pytest.raises(Refused):
        watching.poll(Answers({"x": 1}, {"x": 2}), list, Format.JSON)
    assert capsys.readouterr().out == '{"x":1}\n{"x":2}\n'
    with pytest.raises(Usage):
        watching.poll(Answers(), list, Format.YAML)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("argv", [("traffic",), ("requests", "--key", "lab")])
def test_a_watch_prints_what_the_command_prints(cluster, argv, monkeypatch) -> None:
    get, left = cluster.get, iter((True, True))

    def some(path: str, query: Any = None) -> Any:
        if next(left, None) is None:
            raise Refused("enough")
        return get(path, query)

    monkeypatch.setattr(cluster, "get", some)
    done = ctl(*argv, "--watch")
    assert isinstance(done.exception, Refused)
    once = get
    monkeypatch.setattr(cluster, "get", once)
    first = ctl(*argv)
    assert done.stdout.splitlines()[0] == first.stdout.splitlines()[0]
