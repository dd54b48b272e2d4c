"""Dashboards as Grafana reads them: every panel says what it shows, nothing overlaps."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from llmgw.observability.dashboards.table import DASHBOARDS
from llmgw.observability.grafana import dashboard_json
from llmgw.observability.panel import WIDTH, Dashboard

BOARDS = {board.name: json.loads(dashboard_json(board)) for board in DASHBOARDS}
PANELS = {
    f"{name}: {panel['title']}": panel
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}

UNITS = {
    *("short", "percent", "percentunit", "bytes", "Bps", "bps", "reqps", "s"),
    *("watt", "celsius", "hertz", "dateTimeAsIso"),
}
"""Units that Grafana knows (its value formats) and that the panels use."""

each_board = pytest.mark.parametrize("board", DASHBOARDS, ids=lambda one: one.name)
each_panel = pytest.mark.parametrize("where", PANELS)


def test_there_is_one_dashboard_for_each_thing() -> None:
    assert list(BOARDS) == ["fleet", "node", "gpu", "fabric", "traffic"]
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)
    assert len(PANELS) == sum(len(board.panels) for board in DASHBOARDS)


@each_board
def test_a_dashboard_has_what_grafana_s_schema_wants(board: Dashboard) -> None:
    made = BOARDS[board.name]
    assert made["id"] is None
    assert made["schemaVersion"] == 39
    assert made["title"]
    assert made["time"] == {"from": "now-3h", "to": "now"}
    source, *others = made["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    for variable in others:
        assert variable["type"] == "query"
        assert variable["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert re.fullmatch(r"label_values\(.+, \w+\)", variable["query"]["query"])
        assert variable["includeAll"]
        assert variable["multi"]


@each_board
def test_panels_have_numbers_of_their_own_and_no_two_overlap(board: Dashboard) -> None:
    placed = BOARDS[board.name]["panels"]
    numbers = [panel["id"] for panel in placed]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in placed:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        assert 0 <= x < x + w <= WIDTH
        cells = {(x + i, y + j) for i in range(w) for j in range(h)}
        assert not cells & taken, panel["title"]
        taken |= cells
    for above, below in pairwise(placed):
        assert above["gridPos"]["y"] <= below["gridPos"]["y"]


@each_panel
def test_a_panel_says_what_it_shows_and_when_it_is_empty(where: str) -> None:
    shows, _, empty = PANELS[where]["description"].partition("\n\n")
    assert shows.endswith(".")
    assert empty.startswith("Empty ")
    assert empty.endswith(".")


@each_panel
def test_a_panel_asks_the_chosen_prometheus_and_shows_a_unit(where: str) -> None:
    panel = PANELS[where]
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == chosen
    assert panel["targets"]
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs)
    for target in panel["targets"]:
        assert target["datasource"] == chosen
        assert target["instant"] != target["range"]
    config = panel["fieldConfig"]
    assert config["defaults"]["unit"] in UNITS
    for override in config["overrides"]:
        assert override["matcher"]["id"] == "byName"
        assert {p["value"] for p in override["properties"] if p["id"] == "unit"} <= UNITS


@each_board
def test_a_query_uses_no_choice_that_the_dashboard_does_not_offer(board: Dashboard) -> None:
    offered = {variable.name for variable in board.variables} | {"__rate_interval"}
    for panel in board.panels:
        for query in panel.queries:
            assert set(re.findall(r"\$\{?(\w+)", query.expr)) <= offered, panel.title


def test_busy_is_never_shown_as_work() -> None:
    busy = [
        (panel["title"], panel["description"])
        for panel in PANELS.values()
        for target in panel["targets"]
        if "busy_ratio" in target["expr"]
    ]
    assert len(busy) >= 4
    for title, description in busy:
        assert "any kernel ran" in title + description


def test_what_is_held_stands_beside_what_is_busy_for_each_class() -> None:
    table = PANELS["fleet: Efficiency"]
    columns: dict[str, Any] = table["transformations"][1]["options"]["renameByName"]
    assert list(columns.values()) == ["devices", "held", "busy", "work", "draw"]
    beside = [target["legendFormat"] for target in PANELS["fleet: Held beside busy"]["targets"]]
    assert beside == ["{{class}} held", "{{class}} busy"]


def test_all_devices_are_a_line_over_the_parts_that_are_stacked() -> None:
    panel = PANELS["fleet: Devices"]
    legends = {target["legendFormat"]: target["expr"] for target in panel["targets"]}
    assert legends == {
        "{{class}} held": "sum by (class) (llmgw_devices_in_use)",
        "{{class}} free": "sum by (class) (llmgw_devices_free)",
        "{{class}} {{reason}}": "sum by (class, reason) (llmgw_devices_unavailable)",
        "all devices": "sum(llmgw_devices)",
    }
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    (line,) = panel["fieldConfig"]["overrides"]
    assert line["matcher"] == {"id": "byName", "options": "all devices"}
    changed = {one["id"]: one["value"] for one in line["properties"]}
    assert changed["custom.stacking"]["mode"] == "none"
    assert changed["custom.fillOpacity"] == 0


def test_a_gap_is_not_drawn_over() -> None:
    lines = [panel for panel in PANELS.values() if panel["type"] == "timeseries"]
    assert lines
    assert not any(panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] for panel in lines)
