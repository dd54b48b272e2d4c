"""`--watch`: what is printed of what changes, and what is said about the connection."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import pytest

from llmgw.base.errors import Usage
from llmgw.cli import session
from llmgw.cli.options import Format
from llmgw.cli.watching import State, follow
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
