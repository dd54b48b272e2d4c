"""Which columns fit, and that rows are as wide as the table."""

import pytest

from llmgw_tui.draw import nodes, replicas, table
from llmgw_tui.draw.table import Column, Gauge, Row
from llmgw_tui.draw.text import pieces_width, said
from tests.unit.tui.seen import fleet_of

COLUMNS = (
    Column("name", "NAME", 1, least=4),
    Column("load", "LOAD", 2, "right", least=6, most=12, grow=1, bar=True),
    Column("extra", "EXTRA", 9),
    Column("note", "NOTE", 1, least=6, grow=4, want=20),
)
ROWS = (
    Row("a", {"name": said("alpha"), "load": Gauge(0.5, "50%"), "extra": said("x" * 10)}),
    Row("b", {"name": said("b"), "load": Gauge(None, "-"), "note": said("n" * 30)}),
)


def _keys(width: int) -> list[str]:
    natural = table.natural_widths(COLUMNS, ROWS)
    return [placed.column.key for placed in table.lay_out(COLUMNS, natural, width)]


def test_columns_of_low_priority_go_first() -> None:
    assert _keys(100) == ["name", "load", "extra", "note"]
    assert _keys(40) == ["name", "load", "note"]
    assert _keys(18) == ["name", "note"]


def test_a_low_column_does_not_come_in_where_a_note_is_cut_for_it() -> None:
    natural = table.natural_widths(COLUMNS, ROWS)
    for width in range(20, 100):
        placed = {p.column.key: p.width for p in table.lay_out(COLUMNS, natural, width)}
        assert "extra" not in placed or placed["note"] >= 20


@pytest.mark.parametrize("width", [10, 40, 76, 116, 180])
def test_rows_and_titles_are_exactly_as_wide_as_the_table(width: int) -> None:
    fleet, when = fleet_of("mixed")
    found = (nodes.row(seen, when) for seen in fleet.seen().nodes)
    rows = tuple(row for row in found)
    layout = table.lay_out(nodes.COLUMNS, table.natural_widths(nodes.COLUMNS, rows), width)
    lines = [table.header(layout, width, "node"), *(table.compose(r, layout, width) for r in rows)]
    assert {pieces_width(line.pieces) for line in lines} == {width}


def test_columns_do_not_become_narrower_while_rows_change() -> None:
    wide = table.natural_widths(COLUMNS, ROWS)
    assert table.natural_widths(COLUMNS, ROWS[1:], wide)["name"] == wide["name"]


def test_a_click_finds_the_column_under_it() -> None:
    layout = table.lay_out(COLUMNS, table.natural_widths(COLUMNS, ROWS), 60)
    assert table.column_at(layout, 0) == "name"
    assert table.column_at(layout, layout[1].x + 1) == "load"
    assert table.column_at(layout, layout[0].width) is None, "between two columns"


def test_device_names_are_told_in_short() -> None:
    assert replicas.ranges(["gpu0", "gpu1", "gpu2", "gpu3", "gpu6"]) == "gpu0-3,6"
    assert replicas.ranges(["gpu1/mig0", "gpu1/mig1"]) == "gpu1/mig0,gpu1/mig1"
