"""`--watch`: what is printed of what changes, and what is said about the connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import pytest

from llmgw.base.errors import Unreachable, Usage
from llmgw.cli import session, watching
from llmgw.cli.options import Format
from llmgw.cli.watching import State, follow, follow_asked
from llmgw.client.interface import LIVE, RECONNECTING, Change, Connection, WatchBatch

UP = Connection(LIVE, 1.0, 1.0)
LOST = Connection(RECONNECTING, 2.0, 1.0, "nothing listens there")


class Told:
    """A client whose watch tells what a test wrote down."""

    def __init__(self, *batches: WatchBatch) -> None:
        self._batches = batches

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def watch(self, topics: Sequence[str]) -> AsyncIterator[WatchBatch]:
        for batch in self._batches:
            yield batch


def node(name: str, **more: Any) -> Change:
    return Change("nodes", name, {"id": name, **more})


def names(state: State) -> list[str]:
    return ["NODE", *sorted(state["nodes"])]


def watched(
    monkeypatch: pytest.MonkeyPatch, *batches: WatchBatch, output: Format = Format.TABLE
) -> None:
    monkeypatch.setattr(session, "connect_for_long", lambda: Told(*batches))
    follow(("nodes",), names, output)


def test_only_new_lines_are_printed_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(
        monkeypatch,
        WatchBatch(UP, (node("a"),), listing=True),
        WatchBatch(UP, (node("a", cpu=5),)),
        WatchBatch(UP, (node("b"),)),
    )
    assert capsys.readouterr().out == "NODE\na\nb\n"


def test_json_is_a_line_for_each_record_that_changed_and_null_for_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(
        monkeypatch,
        WatchBatch(UP, (node("a"), node("b")), listing=True),
        WatchBatch(UP, (node("b"),)),
        WatchBatch(UP, (node("b", cpu=5),), listing=True),
        output=Format.JSON,
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["id"], line["record"]) for line in lines] == [
        ("a", {"id": "a"}),
        ("b", {"id": "b"}),
        ("b", {"id": "b", "cpu": 5}),
        ("a", None),
    ]
    assert {line["topic"] for line in lines} == {"nodes"}


def test_a_lost_control_plane_is_said_once_on_stderr_and_so_is_its_return(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, WatchBatch(LOST), WatchBatch(LOST), WatchBatch(UP, (), listing=True))
    said = capsys.readouterr()
    assert said.out == "NODE\n"
    assert said.err == "not connected: nothing listens there; trying again\nconnected\n"


@pytest.mark.parametrize("output", [Format.YAML, Format.NAME])
def test_forms_that_cannot_be_followed_are_refused(
    output: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Usage, match=f"--watch does not print {output.value}"):
        watched(monkeypatch, output=output)


class Busy:
    """Replicas that do more each time that somebody asks; the watch ends when they were asked of.

    Args:
        asked: how often they are asked of before the watch ends.
        lost: they can't be asked of at first.
    """

    def __init__(self, asked: int, *, lost: bool = False) -> None:
        self._left = asked
        self._lost = lost
        self._flight = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def watch(self, topics: Sequence[str]) -> AsyncIterator[WatchBatch]:
        assert topics == ("replicas", "nodes")
        yield WatchBatch(UP, (), listing=True)
        for _ in range(10_000):
            await asyncio.sleep(0)
            if self._left <= 0:
                break
        for _ in range(100):
            await asyncio.sleep(0)

    def fetch(self) -> list[dict[str, Any]]:
        self._left -= 1
        if self._lost:
            self._lost = False
            raise Unreachable("nothing listens there")
        self._flight += 1
        return [{"id": "a", "in_flight": self._flight}, {"id": "b", "in_flight": 0}]


def asked(
    monkeypatch: pytest.MonkeyPatch, busy: Busy, output: Format = Format.TABLE, *, tty: bool = False
) -> None:
    monkeypatch.setattr(session, "connect_for_long", lambda: busy)
    monkeypatch.setattr(watching, "POLL", 0.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: tty)
    follow_asked(
        ("replicas", "nodes"),
        busy.fetch,
        lambda them: ["REPLICA", *(f"{one['id']} {one['in_flight']}" for one in them)],
        output,
    )


def test_counts_that_no_topic_tells_are_asked_for_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(monkeypatch, Busy(3), tty=True)
    screens = capsys.readouterr().out.split(watching.CLEAR)
    assert screens[1:4] == [f"REPLICA\na {number}\nb 0\n" for number in (1, 2, 3)]


def test_elsewhere_they_are_asked_for_only_when_a_topic_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(monkeypatch, Busy(1))
    assert capsys.readouterr().out == "REPLICA\na 1\nb 0\n"


def test_as_json_only_those_are_a_line_that_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(monkeypatch, Busy(3, lost=True), Format.JSON)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["id"], line["record"]["in_flight"]) for line in lines[:3]] == [
        ("a", 1),
        ("b", 0),
        ("a", 2),
    ]
    assert {line["topic"] for line in lines} == {"replicas"}
