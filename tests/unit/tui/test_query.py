"""Filters and orders."""

import pytest

from llmgw_tui.draw import nodes
from llmgw_tui.draw.table import Row
from llmgw_tui.draw.text import said
from llmgw_tui.store.query import arranged, fuzzy, read_filter
from tests.unit.tui.seen import fleet_of


def _names(text: str) -> list[str]:
    fleet, when = fleet_of("mixed")
    kept = read_filter(text)
    rows = [nodes.row(seen, when) for seen in fleet.seen().nodes]
    return [row.id for row in arranged(rows, kept, "node", down=False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-0[12]", ["gpu-01", "gpu-02"]),
        ("GPU-01", ["gpu-01"]),
        ("state=lost", ["cpu-11"]),
        ("pool=h100 !serving !ready !degraded", ["gpu-07", "gpu-14"]),
        ("~g16", ["gpu-16"]),
        ("!state=ready !state=serving pool=cpu", ["cpu-05", "cpu-09", "cpu-11", "cpu-12"]),
        ("pool=c* 0[1-2]$", []),
        ("uncorrected", ["gpu-03"]),
        ("llama-3.3 rack=r1", ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]),
        ("no such thing", []),
    ],
)
def test_filters_find_by_pattern_label_letters_and_inverse(text: str, expected: list[str]) -> None:
    assert _names(text) == expected


def test_an_empty_filter_keeps_everything() -> None:
    assert len(_names("")) == 40


def test_a_broken_pattern_is_said_and_taken_as_text() -> None:
    broken = read_filter("gpu[")
    assert "gpu[" in broken.problem
    assert broken.keeps(Row("x", {"name": said("a gpu[ b")}))
    assert not broken.keeps(Row("x", {"name": said("a gpu b")}))


def test_names_are_ordered_as_people_count() -> None:
    rows = [Row(f"gpu-{n}", {}, {"node": f"gpu-{n}"}) for n in (10, 2, 1)]
    ordered = arranged(rows, read_filter(""), "node", down=False)
    assert [row.id for row in ordered] == ["gpu-1", "gpu-2", "gpu-10"]


def test_what_is_not_known_comes_last_both_ways() -> None:
    rows = [Row("a", {}, {"cpu": 0.5}), Row("b", {}, {}), Row("c", {}, {"cpu": 0.0})]
    up = [row.id for row in arranged(rows, read_filter(""), "cpu", down=False)]
    down = [row.id for row in arranged(rows, read_filter(""), "cpu", down=True)]
    assert (up, down) == (["c", "a", "b"], ["a", "c", "b"])


def test_letters_in_order_fit_and_others_do_not() -> None:
    assert fuzzy("gp3", "gpu-03") is not None
    assert fuzzy("3pg", "gpu-03") is None
    near, far = fuzzy("ab", "abxx"), fuzzy("ab", "axxb")
    assert near is not None
    assert far is not None
    assert near < far
