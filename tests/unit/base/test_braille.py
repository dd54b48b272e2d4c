"""Readings as braille: what was not measured is blank, what is zero is a dot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.braille import columns, is_braille, rows, to_ascii


def test_nothing_measured_is_blank_and_zero_is_a_dot() -> None:
    assert rows([None, None, (0.0, 0.0), (0.0, 0.0)], 1, 100.0) == [" ⣀"]


def test_a_column_is_filled_up_to_its_mean_with_a_dot_at_its_highest() -> None:
    # Two rows have eight levels: 50 % are four, 100 % are eight.
    assert rows([(50.0, 50.0), (100.0, 100.0)], 2, 100.0) == ["⢸", "⣿"]
    assert rows([(50.0, 100.0), None], 2, 100.0) == ["⠁", "⡇"]


def test_what_is_above_the_top_is_drawn_as_the_top_and_below_zero_as_zero() -> None:
    assert rows([(500.0, 900.0), (-5.0, -5.0)], 1, 100.0) == ["⣇"]


def test_an_odd_column_gets_a_cell_of_its_own() -> None:
    assert rows([(100.0, 100.0)] * 3, 1, 100.0) == ["⣿⡇"]


def test_readings_that_share_a_column_are_told_by_mean_and_highest() -> None:
    assert columns([1.0, 3.0, None, 8.0, None, None], 5, 3) == [(2.0, 3.0), (8.0, 8.0), None]


def test_a_reading_takes_several_columns_where_there_are_more_columns() -> None:
    assert columns([1.0, None], 1, 4) == [(1.0, 1.0), (1.0, 1.0), None, None]
    assert columns([], 0, 2) == [None, None]


@given(
    st.lists(st.none() | st.floats(0, 100), min_size=2, max_size=60),
    st.integers(0, 10**9),
    st.integers(1, 40),
)
def test_every_reading_is_in_exactly_one_column_and_the_newest_in_the_last(
    values: list[float | None], last: int, count: int
) -> None:
    found = columns(values, last, count)
    assert len(found) == count
    if count <= len(values):
        highest = [column[1] for column in found if column is not None]
        assert max(highest, default=None) in (
            None,
            *(value for value in values if value is not None),
        )
    newest = values[-1]
    if newest is not None:
        assert found[-1] is not None
        assert found[-1][1] >= newest


@given(st.integers(0, 10**6), st.integers(2, 30))
def test_as_time_passes_a_chart_moves_by_whole_columns(last: int, count: int) -> None:
    series = [float(number * 37 % 101) for number in range(200)]
    points = 90
    before = columns(series[:points], last, count)
    for later in range(1, 60):
        after = columns(series[later : later + points], last + later, count)
        moves = {
            shift
            for shift in range(count)
            # The first and the last column are still being left and filled.
            if after[1 : count - shift - 1] == before[1 + shift : count - 1]
        }
        assert moves, (before, after)


@given(st.lists(st.none() | st.tuples(st.floats(), st.floats()), max_size=30), st.integers(1, 6))
def test_rows_are_all_as_wide_whatever_the_readings(
    filled: list[tuple[float, float] | None], height: int
) -> None:
    finite = [
        None if column is None or not all(abs(one) < 1e300 for one in column) else column
        for column in filled
    ]
    drawn = rows(finite, height, 100.0)
    assert len(drawn) == height
    assert {len(row) for row in drawn} == {-(-len(filled) // 2)}


@pytest.mark.parametrize(("cell", "shown"), [("⣿", "#"), ("⣀", "."), ("⠁", "."), ("⡆", "=")])
def test_a_cell_in_ascii_is_about_as_high(cell: str, shown: str) -> None:
    assert is_braille(cell)
    assert to_ascii(cell) == shown
