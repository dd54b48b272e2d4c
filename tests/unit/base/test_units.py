import math
from contextlib import suppress
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.base.units import (
    counted,
    parse_seconds,
    show_bytes,
    show_moment,
    show_number,
    show_seconds,
)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7200), ("12", 12)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(Unreadable):
        parse_seconds("soon")


def test_what_is_not_known_is_a_dash_and_zero_is_zero() -> None:
    assert show_bytes(None) == show_seconds(None) == "-"
    assert show_bytes(0) == "0 B"
    assert show_seconds(0) == "0ms"


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 B"), (1500, "1.5 kB"), (80_000_000_000, "80 GB")]
)
def test_sizes_are_shown_short(count: int, text: str) -> None:
    assert show_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.35, "350ms"), (4.21, "4.2s"), (192, "3m12s"), (356_400, "4d03h")]
)
def test_durations_are_shown_short(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@given(st.text(max_size=20))
def test_no_text_makes_the_reader_raise_anything_but_unreadable(text: str) -> None:
    with suppress(Unreadable):
        assert parse_seconds(text) >= 0


def test_a_count_comes_with_its_noun():
    assert [counted(number, "disk") for number in (0, 1, 2)] == ["0 disks", "1 disk", "2 disks"]
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (-math.inf, "-"),
        (-0.0, "0"),
        (-0.2, "0"),
        (-5.0, "-5"),
        (699.6, "700"),
        (1e308, "1.0e+308"),
        (10**18, "1.0e+18"),
    ],
)
def test_a_number_is_shown_short_whatever_it_is(value: float | None, text: str) -> None:
    assert show_number(value) == text


def test_a_number_has_as_many_digits_as_asked_for() -> None:
    assert show_number(1.256, 2) == "1.26"


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, 1e308, -1e308])
def test_what_another_machine_may_say_is_shown_short_and_raises_nothing(nonsense: float) -> None:
    assert show_seconds(nonsense) == "-"
    assert show_moment(nonsense) == "-"
    assert len(show_number(nonsense)) <= 9
    assert len(show_bytes(nonsense)) <= 12


@pytest.mark.parametrize("at", [None, 1e11 * 5, 1e18, -1e18, 253402300800.0])
def test_a_moment_that_is_in_no_year_is_a_dash(at: float | None) -> None:
    assert show_moment(at, zone=UTC) == "-"


def test_a_moment_is_shown_in_its_zone_and_pattern() -> None:
    assert show_moment(1_800_014_400.0, zone=UTC) == "2027-01-15 12:00:00"
    assert show_moment(1_800_014_400.0, "%H:%M", UTC) == "12:00"
