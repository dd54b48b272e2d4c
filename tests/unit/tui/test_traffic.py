"""The page of traffic and the list of requests in flight: they fit, and nothing unknown is 0."""

import msgspec
import pytest

from llmgw.control.rates import LENGTH
from llmgw.model.flow import Flow
from llmgw.model.gateway import RefusalCount
from llmgw.model.live import QUEUED, RequestsShown, Silent
from llmgw_tui.draw import flow, live
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.text import Pieces, pieces_width
from tests.fakes import flows

SIZES = [(38, 6), (78, 20), (116, 36), (196, 56)]


def _text(lines: list[PageLine]) -> str:
    return "\n".join("".join(piece.text for piece in line.pieces) for line in lines)


def _words(pieces: Pieces) -> str:
    return "".join(piece.text for piece in pieces)


def _role(pieces: Pieces, text: str) -> str:
    return next(piece.role for piece in pieces if text in piece.text)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("busy", [False, True])
def test_charts_and_tables_are_as_wide_as_the_page(size: tuple[int, int], busy: bool) -> None:
    seen = flows.flowing() if busy else flows.resting()
    for series in ("", *flow.SERIES):
        lines = flow.page(seen, flows.hour(busy=busy), *size, series)
        tables = lines[lines.index(next(one for one in lines if "By gateway" in _text([one]))) :]
        assert all(pieces_width(line.pieces) <= size[0] for line in tables)


def test_a_page_says_rates_times_errors_and_who_waits_for_longest() -> None:
    text = _text(flow.page(flows.flowing(), None, 196, 56))
    assert "3.37/s  209 in 1m02s" in text
    assert "in flight 4, 1 waiting for 800ms" in text
    assert "p50 100ms   p95 800ms   p99 960ms   of 184" in text
    assert "23 over_tokens_per_minute, 2 invalid_api_key; 2×401, 23×429" in text
    assert "▲ gw-2 is away: what it does is not known" in text
    assert flow.NO_MODEL in text


def test_what_was_not_measured_is_no_zero() -> None:
    fresh = msgspec.structs.replace(
        flows.resting(),
        window=0.0,
        whole=msgspec.structs.replace(
            flows.resting().whole, requests_per_second=None, errors_per_second=None,
            prompt_tokens_per_second=None, completion_tokens_per_second=None,
        ),
    )  # fmt: skip
    text = _text(flow.page(fresh, None, 116, 36))
    assert "requests     -/s" in text
    assert "in -/s   out -/s" in text
    assert text.count("nothing measured in this time") == 2
    assert "0.00/s  0 in 1m02s" in _text(flow.page(flows.resting(), None, 116, 36))


def test_without_a_gateway_it_is_said_that_none_is_connected() -> None:
    none = msgspec.structs.replace(flows.resting(), gateways=())
    assert "no gateway is connected" in _text(flow.page(none, None, 116, 36))


def test_a_percentile_that_nobody_measured_whole_is_at_least_so_much() -> None:
    times = flows.flowing().whole.first_token
    assert times is not None
    assert times.bound is not None
    beyond = msgspec.structs.replace(times, p99=times.bound)
    assert flow.percentile(beyond, "p99").startswith("≥")
    assert flow.percentile(times, "p50") == "100ms"
    assert flow.percentile(None, "p50") == "-"


def test_an_error_code_forges_no_line() -> None:
    whole = flows.flowing().whole
    seen: Flow = msgspec.structs.replace(
        flows.flowing(),
        whole=msgspec.structs.replace(
            whole, codes=(RefusalCount(code="x\x1b[31m\ny", count=1),), statuses=()
        ),
    )
    text = _text(flow.page(seen, None, 116, 36))
    assert "\x1b" not in text
    assert "1 x" in text


def test_one_chart_shows_in_a_narrow_page_and_all_beside_each_other_in_a_wide_one() -> None:
    past = flows.hour(busy=True)
    narrow = _text(flow.page(flows.flowing(), past, 78, 60))
    assert "requests/s  now" in narrow
    assert "errors/s  now" not in narrow
    wide = _text(flow.page(flows.flowing(), past, 196, 56))
    assert all(f"{title}  now" in wide for title in flow.TITLES.values())
    assert "gaps 10m" in wide, "what is not known of the hour is told"
    assert len(past.series[0].values) == LENGTH


def test_charts_follow_each_other_around() -> None:
    seen = [""]
    for _ in range(len(flow.SERIES) + 1):
        seen.append(flow.other_series(seen[-1], 1, 196))
    assert seen == ["", *flow.SERIES, ""]
    assert flow.other_series("requests", -1, 78) == flow.SERIES[-1]


def test_a_request_shows_how_far_it_is_and_is_sorted_by_its_age() -> None:
    late, streams, waits, connects = (live.row(one) for one in flows.in_flight().requests)
    assert _words(live.state_of(flows.in_flight().requests[2]).pieces) == "▲ queued 1"
    age, tokens = late.cells["age"], late.cells["tokens"]
    assert isinstance(age, tuple)
    assert isinstance(tokens, tuple)
    assert (_words(age), _role(age, "1m35s")) == ("1m35s", "warn")
    assert (_words(tokens), _role(tokens, "-")) == ("-", "absent")
    ages = [float(one.order["age"]) for one in (late, streams, waits, connects)]
    assert ages == sorted(ages)
    assert "tokens" not in late.order
    assert waits.labels["state"] == QUEUED


def test_what_the_list_lacks_stands_above_it() -> None:
    seen = flows.in_flight()
    assert live.caption(None) == ("Requests in flight", ())
    title, notes = live.caption(seen)
    assert (title, _words(notes)) == ("Requests in flight 4", "gw-2: it is not connected")
    more: RequestsShown = msgspec.structs.replace(
        seen, total=900, matching=900, silent=(Silent(gateway="g\x1bw", words="a\nb"),)
    )
    title, notes = live.caption(more)
    assert title == "Requests in flight 900"
    assert _words(notes).startswith("4 of 900 shown; g")
    assert "\x1b" not in _words(notes)
    assert "\n" not in _words(notes)


def test_ending_requests_names_them_and_the_command_that_does_the_same() -> None:
    found = flows.in_flight().requests
    (words, ending) = live.effects(found[1:2])
    assert words == "req-a-1 of lab: streaming for 12s, 183 tokens, gemma3-270m-7k2m9x"
    assert "cancelled_by_operator" in ending
    assert live.command(found[:2]) == "llmgw ctl requests cancel req-a-2 req-a-1"
    assert (live.name(found[:1]), live.name(found)) == ("lab", "4")
    assert live.effects(found * 5)[live.NAMED_MOST] == f"and {20 - live.NAMED_MOST} more"
    assert live.done(1, 0)[0] == "1 request cancelled"
    assert live.done(1, 2)[0] == "1 request cancelled, 2 had ended already"
