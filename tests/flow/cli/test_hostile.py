"""Whatever the control plane answers: no view steers the terminal, its columns stay straight."""

import contextlib
import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from rich.cells import cell_len

from llmgw.cli import output, session, watching
from llmgw.cli.ctl import (
    audit,
    config,
    events,
    gateways,
    hardware,
    jobs,
    keys,
    logs,
    model,
    models,
    node,
    nodes,
    plan,
    replicas,
    status,
    token,
    usage,
)
from llmgw.cli.options import Format
from llmgw.control.api.shapes import Status
from llmgw.model.catalog import CatalogEntry
from llmgw.model.events import AuditEntry, Event
from llmgw.model.gateway import Gateway
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job
from llmgw.model.keys import Key, UsageSum
from llmgw.model.node import Node, Sample
from llmgw.model.replica import Replica
from llmgw.model.settings import SettingsChange
from tests.fakes.feed import built
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.fakes.poison import (
    HAZARDS,
    NUMBERS,
    WHOLE,
    filled,
    hazardous,
    made_of,
    places,
    shortened,
    steering,
    with_put,
)

Shown = Callable[[Format], object]
NODE = "gpu-01"


def _recorded(topic: str, kind: type) -> tuple[Any, ...]:
    found = FLEETS["gpu8"]().topics[topic].values()
    return tuple(shortened(filled(one)) for one in found if isinstance(one, kind))


RECORDS: dict[str, Any] = {
    "nodes": _recorded("nodes", Node),
    "samples": _recorded("samples", Sample),
    "replicas": _recorded("replicas", Replica),
    "status": made_of(Status),
    "hardware-changes": (made_of(HardwareChange),),
    "events": (made_of(Event),),
    "audit": (made_of(AuditEntry),),
    "keys": (made_of(Key),),
    "tokens": (made_of(token.TokenSeen),),
    "gateways": (made_of(Gateway),),
    "usage": (made_of(UsageSum),),
    "models": (made_of(models.ModelSeen),),
    "jobs": (made_of(Job),),
    "model-history": (made_of(CatalogEntry),),
    "settings-history": (made_of(SettingsChange),),
    "settings": {"version": 1, "settings": {"cluster": {"name": "lab"}}},
    "plan": {
        "parent": 1,
        "number": 3,
        "sentence": "nothing to do",
        "steps": [{"kind": "start", "replica": "a", "words": "on gpu-01"}],
        "refusals": [{"model": "m", "profile": "default", "words": "no room"}],
    },
    "explain": [
        {
            "node": NODE,
            "verdict": {"kind": "not_now", "rule": "room", "words": "full", "reasons": ["full"]},
            "scores": {"spread": 3},
        }
    ],
    "logs": {"lines": ["one line"], "sources": ["a/0"]},
}
VIEWS: dict[str, tuple[Shown, ...]] = {
    "nodes": (nodes.nodes, lambda form: node.show_one(NODE, form)),
    "samples": (nodes.nodes, lambda form: node.show_one(NODE, form)),
    "replicas": (replicas.replicas, lambda form: node.show_one(NODE, form)),
    "status": (status.status,),
    "hardware-changes": (lambda form: hardware.hardware(output=form),),
    "events": (lambda form: events.events(output=form),),
    "audit": (audit.audit,),
    "keys": (keys.keys,),
    "tokens": (token.list_all,),
    "gateways": (gateways.gateways,),
    "usage": (
        lambda form: usage.usage(output=usage.Printed(form)),
        lambda _: usage.usage(output=usage.Printed.CSV),
    ),
    "models": (models.models,),
    "jobs": (jobs.list_jobs, lambda form: jobs.show_one("job-1", form)),
    "model-history": (
        lambda form: model.history("m", form),
        lambda form: model.show_one("m", form),
    ),
    "settings-history": (lambda form: config.history(output=form),),
    "settings": (lambda form: config.get(output=form),),
    "plan": (plan.plan,),
    "explain": (lambda form: plan.explain("m", form),),
    "logs": (lambda form: logs.logs(NODE, output=form),),
}
LINES = {"status", "plan", "settings", "logs"}
"""Views that are no tables."""
FIELDS = sorted((answer, place) for answer, told in RECORDS.items() for place in places(told))
FIGURES = sorted(
    (answer, place)
    for answer, told in RECORDS.items()
    if answer not in {"plan", "explain", "settings", "logs"}
    for place in places(told, (int, float))
)


class Api:
    """Answers what a control plane would, from `records`."""

    def __init__(self, records: dict[str, Any]) -> None:
        self.records = records

    def get(self, path: str, query: object = None) -> Any:
        del query
        first, *others = path.strip("/").split("/")
        if first == "list":
            lists = {name: built(self.records[name]) for name in ("nodes", "samples", "replicas")}
            return {"topics": lists}
        if first == "nodes":
            return self._node() if others[1:] != ["logs"] else built(self.records["logs"])
        if first == "models" and others:
            return built(self.records["model-history"][0])
        if first == "jobs" and others:
            return built(self.records["jobs"][0])
        return built(self.records[first])

    def _node(self) -> object:
        (sample,) = self.records["samples"]
        (seen,) = self.records["nodes"]
        told = built(seen)
        assert isinstance(told, dict)
        return {**told, "sample": built(sample.heartbeat), "sampled_at": NOW}


def put(answer: str, place: str | None, change: Mapping[type, object]) -> dict[str, Any]:
    """Return the answers with the leaves of one, at a place or everywhere, made something else."""
    return {**RECORDS, answer: with_put(RECORDS[answer], place, change)}


def poisoned(answer: str, place: str | None, text: str) -> dict[str, Any]:
    return put(answer, place, {str: text})


@pytest.fixture(autouse=True)
def _moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "now", lambda: NOW)


def said(view: Shown, form: Format, monkeypatch: pytest.MonkeyPatch, api: Api) -> str:
    monkeypatch.setattr(session, "connect", lambda **_: api)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        view(form)
    assert not list(steering(err.getvalue()))
    return out.getvalue()


@pytest.mark.parametrize(("answer", "place"), FIELDS)
def test_no_field_steers_the_terminal(
    answer: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(poisoned(answer, place, hazardous("field")))
    for view in VIEWS[answer]:
        for form in Format:
            text = said(view, form, monkeypatch, api)
            # An engine's tabs stay what they are.
            text = text.replace("\t", " ") if answer == "logs" else text
            assert list(steering(text)) == [], (view, form)


@pytest.mark.parametrize(("answer", "place"), FIGURES)
def test_no_number_breaks_a_view_or_fills_it(
    answer: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for real, whole in zip(NUMBERS, WHOLE, strict=True):
        api = Api(put(answer, place, {float: real, int: whole}))
        for view in VIEWS[answer]:
            text = said(view, Format.WIDE, monkeypatch, api)
            assert re.search(r"\d{25}", text) is None, text


@pytest.mark.parametrize("hazard", HAZARDS)
def test_data_is_the_same_after_it_was_made_harmless(
    hazard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(poisoned("events", None, HAZARDS[hazard]))
    (view,) = VIEWS["events"]
    told = built(api.records["events"])
    assert json.loads(said(view, Format.JSON, monkeypatch, api)) == told
    assert yaml.safe_load(said(view, Format.YAML, monkeypatch, api)) == told


@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("answer", [name for name in VIEWS if name not in LINES])
def test_a_table_keeps_to_the_terminal_and_its_columns_straight(
    answer: str, hazard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(poisoned(answer, None, f"a{HAZARDS[hazard]}b"))
    rows: list[str] = []
    made = output.table

    def kept(*arguments: Any, **options: Any) -> list[str]:
        lines = made(*arguments, **options)
        rows.extend(lines)
        return lines

    monkeypatch.setattr(output, "table", kept)
    monkeypatch.setattr(output, "most_cells", lambda: 100)
    said(VIEWS[answer][0], Format.WIDE, monkeypatch, api)
    assert [line for line in rows if cell_len(line) > 100] == []


def test_columns_begin_in_the_same_cell_whatever_stands_before_them() -> None:
    columns: tuple[output.Column[str], ...] = (
        output.Column("ONE", lambda row: row),
        output.Column("TWO", lambda _: "|"),
    )
    lines = output.table(["漢字", "e\u0301", "a\x1b[31m"], columns, wide=False)
    places = zip(lines, "T|||", strict=True)
    assert {cell_len(line[: line.index(mark)]) for line, mark in places} == {8}


def test_a_change_that_is_followed_is_told_harmlessly() -> None:
    state: watching.State = {"nodes": {}}
    record = {"id": "a", "words": hazardous("x")}
    line = watching._changes({}, {**state, "nodes": {"a": record}})
    assert list(steering(line)) == []
    assert json.loads(line)["record"] == record
