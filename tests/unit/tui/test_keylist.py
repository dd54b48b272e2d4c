"""Keys as the console shows them, what is typed to change them, and their use over time."""

from typing import Any

import msgspec
import pytest

from llmgw.model.keys import LIMITS, QuotaFigures
from llmgw_tui.draw import keyform, keylist, keyuse
from llmgw_tui.draw.seen import When
from llmgw_tui.draw.table import Gauge, Row
from llmgw_tui.draw.text import Pieces, pieces_width
from tests.fakes import flows
from tests.fakes.fleet_parts import NOW

WHEN = When(NOW)
SEEN = keylist.joined(flows.KEYS, flows.STANDINGS)
LAB, BATCH, GONE = flows.KEYS[0], flows.KEYS[1], flows.KEYS[2]


def _words(pieces: Pieces) -> str:
    return "".join(piece.text for piece in pieces)


def _cell(row: Row, name: str) -> str:
    cell = row.cells[name]
    return cell.words if isinstance(cell, Gauge) else _words(cell)


def test_each_key_shows_what_is_wrong_with_it() -> None:
    states = {one: keylist.state_of(seen, WHEN).word for one, seen in SEEN.items()}
    assert states == {
        "k7f2m9x1aa": "in use",
        "batch00001": "over",
        "gone000001": "ended",
        "new0000001": "idle",
        "revoked001": "revoked",
    }


def test_a_row_says_what_was_used_of_limits_and_when_last() -> None:
    row = keylist.row(SEEN["k7f2m9x1aa"], WHEN)
    assert _cell(row, "hour") == "412"
    assert _cell(row, "day_tokens") == "1.6M"
    assert _cell(row, "tightest") == "1.6M/2.0M tok/day"
    assert _cell(row, "requests_per_minute") == "31/60"
    assert _cell(row, "tokens_per_minute") == "-"
    assert _cell(row, "used") == "<1m"
    over = keylist.row(SEEN["batch00001"], WHEN)
    assert _cell(over, "refused") == "17 <1m"
    assert _cell(over, "models") == "gemma3-270m, qwen3-coder-480b-a35b"


def test_what_nobody_told_of_a_key_is_no_zero() -> None:
    silent = keylist.joined(flows.KEYS, ())["k7f2m9x1aa"]
    row = keylist.row(silent, WHEN)
    for name in ("hour", "hour_tokens", "day", "day_tokens", "refused", "used", "failed"):
        assert _cell(row, name) == "-"
    assert _cell(row, "requests_per_minute") == "-/60"
    nothing_told = msgspec.structs.replace(flows.STANDINGS[0], used=QuotaFigures())
    known = keylist.KeySeen(LAB.id, LAB, nothing_told)
    assert _cell(keylist.row(known, WHEN), "concurrent") == "-/8"


def test_a_key_that_was_revoked_is_sorted_behind_those_with_a_name() -> None:
    row = keylist.row(SEEN["revoked001"], WHEN)
    assert "name" not in row.order
    assert _cell(row, "name") == "revoked001"


def test_revoking_says_what_it_does() -> None:
    lines = keylist.revoking(SEEN["k7f2m9x1aa"])
    assert "refused within a second" in lines[0]
    assert "9120 requests in the last day" in lines[1]
    assert keylist.revoke_command(SEEN["k7f2m9x1aa"]) == "llmgw ctl key rm k7f2m9x1aa"
    assert len(keylist.revoking(SEEN["new0000001"])) == 2


def test_a_name_becomes_a_filter_that_fits_it() -> None:
    assert keylist.as_filter("nightly batch") == "nightly?batch"


# What is typed.


def typed(key: Any = None, **values: str) -> keyform.Read:
    texts = {field.name: field.text for field in keyform.fields(key)} | values
    return keyform.read(texts, key)


def test_a_new_key_needs_a_name_and_nothing_else() -> None:
    assert typed().problem == "name: whose is it?"
    read = typed(name="lab two")
    assert (read.body, read.problem) == ({"name": "lab two"}, "")
    assert read.command == "llmgw ctl key add 'lab two'"


def test_all_that_is_typed_is_in_body_and_command() -> None:
    read = typed(
        name="lab", models="a, b", expires_in="30d", requests_per_minute="60",
        tokens_per_day="2_000_000", priority="-3",
    )  # fmt: skip
    assert read.body == {
        "name": "lab",
        "models": ["a", "b"],
        "expires_in": 30 * 86400.0,
        "requests_per_minute": 60,
        "tokens_per_day": 2_000_000,
        "priority": -3,
    }
    assert read.command == (
        "llmgw ctl key add lab --model a --model b --expires 30d "
        "--requests-per-minute 60 --tokens-per-day 2000000 --priority -3"
    )


def test_of_a_key_that_is_changed_only_what_differs_is_sent() -> None:
    assert typed(LAB).problem == "nothing is changed"
    read = typed(LAB, concurrent="", tokens_per_day="5000000")
    assert read.body == {"concurrent": None, "tokens_per_day": 5_000_000}
    assert read.command == (
        "llmgw ctl key edit k7f2m9x1aa --tokens-per-day 5000000 --concurrent none"
    )
    assert typed(BATCH, models="").body == {"models": None}
    assert "--all-models" in typed(BATCH, models="").command
    assert typed(GONE, expires_in="never").body == {"expires_in": None}
    assert "--expires 5400s" in typed(GONE, expires_in="1.5h").command
    assert "--expires 3024000s" not in typed(GONE, expires_in="35d").command


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"requests_per_minute": "many"}, "requests/min: 'many' is no number"),
        ({"concurrent": "0"}, "at once: 0 is not 1 to 1000000000000"),
        ({"priority": "11"}, "priority: 11 is not -10 to 10"),
        ({"expires_in": "soon"}, "ends in:"),
    ],
)
def test_what_cannot_be_read_is_named(values: dict[str, str], problem: str) -> None:
    read = typed(name="lab", **values)
    assert read.problem.startswith(problem)
    assert not read.body


def test_the_form_has_a_line_for_every_limit() -> None:
    assert {field.name for field in keyform.fields()} >= set(LIMITS)


# Use over time.


@pytest.mark.parametrize("width", [36, 72, 88])
def test_use_has_a_line_an_hour_and_a_day_and_one_without_use_is_zero(width: int) -> None:
    used = keyuse.UseSeen(flows.USED, flows.USED)
    lines = keyuse.body("k7f2m9x1aa", used, WHEN, width)
    assert {pieces_width(line) for line in lines} == {width}
    texts = [_words(line) for line in lines]
    assert sum(":00 " in text for text in texts) == keyuse.HOURS
    assert len(lines) == keyuse.HOURS + keyuse.DAYS + 5
    assert "371k" in texts[1]
    assert "━" in texts[1]
    assert "━" not in texts[3], "an hour without use has no bar"
    assert texts[3].split()[2] == "0"
    assert "llmgw ctl usage --key k7f2m9x1aa" in texts[-1]


def test_hours_and_days_are_asked_for_from_a_whole_one_on() -> None:
    hours, days = keyuse.since(NOW)
    assert hours % 3600 == 0
    assert days % 86400 == 0
    assert NOW - hours >= 23 * 3600
    assert NOW - days >= 13 * 86400
