"""Rates, percentiles and the last hour, made of totals that gateways tell."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.control.came import ended, failed, since
from llmgw.control.flow import flow
from llmgw.control.percentiles import between, percentiles, quantile
from llmgw.control.rates import DETAIL, MODELS_MOST, STEP, Rates
from llmgw.gateway.meter import BOUNDS, Meter, Spread
from llmgw.model.flow import FlowHistory
from llmgw.model.gateway import Gateway, Histogram, ModelTraffic, TrafficReport

Models = tuple[ModelTraffic, ...]


def meter(count: int, model: str = "m", seconds: float = 0.3, in_flight: int = 0) -> ModelTraffic:
    made = Meter(model)
    for _ in range(count):
        made.first_token.add(seconds)
        made.duration.add(seconds)
        made.replied(200)
    made.completion = 10 * count
    made.prompt = 100 * count
    made.in_flight = in_flight
    return made.record()


def report(*models: ModelTraffic, gateway: str = "g", boot: str = "b", worker: int = 0):
    return TrafficReport(gateway=gateway, boot=boot, worker=worker, models=models)


class Hand:
    """Rates with a clock by hand, one step at a time."""

    def __init__(self, length: int = 12) -> None:
        self.rates = Rates(length)
        self.now = 0.0

    def step(self, *reports: TrafficReport, queued: int = 0) -> None:
        self.now += STEP
        queues = {"g": {"m": queued}} if queued else {}
        self.rates.step(reports, queues, monotonic=self.now, at=1000.0 + self.now)

    def came(self, *reports: TrafficReport, seconds: float = 60.0) -> tuple[float, int]:
        """Return over how long, and how many requests ended in it."""
        window, deltas = self.rates.window(reports, seconds, monotonic=self.now)
        return window, sum(ended(one) for one in deltas.values())


# Percentiles.


def test_a_percentile_lies_in_its_bucket_where_even_filling_puts_it() -> None:
    histogram = Histogram(bounds=(0.1, 0.2, 0.4), counts=(10, 30, 40, 40), sum=8.0)
    assert quantile(histogram, 0.5) == pytest.approx(0.15)  # the 20th: half of 10..30
    assert quantile(histogram, 0.25) == pytest.approx(0.1)
    assert quantile(histogram, 1.0) == pytest.approx(0.4)


def test_a_percentile_beyond_the_highest_bound_is_that_bound() -> None:
    histogram = Histogram(bounds=(0.1, 0.2), counts=(1, 1, 10), sum=90.0)
    told = percentiles(histogram)
    assert told is not None
    assert (told.p95, told.bound) == (0.2, 0.2)


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentiles(None) is None
    assert percentiles(Histogram(bounds=(0.1,), counts=(0, 0), sum=0.0)) is None
    assert quantile(Histogram(bounds=(), counts=(), sum=0.0), 0.5) is None


@given(st.lists(st.floats(min_value=0.001, max_value=400.0), min_size=1, max_size=200))
def test_a_percentile_is_never_further_off_than_its_bucket(seconds: list[float]) -> None:
    spread = Spread()
    for one in seconds:
        spread.add(one)
    told = percentiles(spread.record())
    assert told is not None
    ranked = sorted(seconds)
    for share, value in ((0.5, told.p50), (0.95, told.p95), (0.99, told.p99)):
        truth = ranked[max(0, math.ceil(share * len(ranked)) - 1)]
        bounds = (0.0, *BOUNDS, math.inf)
        at = next(i for i, bound in enumerate(bounds) if truth <= bound)
        assert value is not None
        assert bounds[at - 1] - 1e-9 <= value <= bounds[at] + 1e-9
    assert told.p50 is not None
    assert told.p99 is not None
    assert told.p50 <= told.p99 + 1e-9


def test_what_came_between_two_readings_is_their_difference() -> None:
    first, later = meter(3), meter(7)
    came = between(later.duration, first.duration)
    assert came is not None
    assert came.counts[-1] == 4
    assert between(first.duration, later.duration) is first.duration  # it began anew
    assert between(later.duration, later.duration) is None
    other = Histogram(bounds=(9.0,), counts=(1, 2), sum=3.0)
    assert between(later.duration, other) is later.duration


# Steps.


def test_what_a_worker_had_counted_before_it_was_first_heard_is_no_rate() -> None:
    hand = Hand()
    hand.step(report(meter(1000)))
    hand.step(report(meter(1000)))
    assert hand.came(report(meter(1004))) == (STEP, 4)


def test_a_worker_and_a_model_that_come_later_in_the_same_boot_begin_at_zero() -> None:
    hand = Hand()
    hand.step(report(meter(1000)))
    hand.step(report(meter(1000), meter(5, "n")), report(meter(7), worker=1))
    assert hand.came() == (STEP, 12)


def test_a_gateway_that_was_away_brings_nothing_of_what_it_counted_meanwhile() -> None:
    hand = Hand()
    hand.step(report(meter(10)))
    hand.step()
    hand.step(report(meter(5000)))
    hand.step(report(meter(5003)))
    assert hand.came(report(meter(5003)))[1] == 3


def test_a_worker_that_began_anew_counts_from_zero() -> None:
    hand = Hand()
    hand.step(report(meter(10)))
    hand.step(report(meter(4)))
    assert hand.came(report(meter(4)))[1] == 4


def test_a_window_has_so_many_steps_and_what_came_since_the_last_one() -> None:
    hand = Hand()
    for count in range(20):
        hand.step(report(meter(10 * count)))
    hand.now += 4.0
    assert hand.came(report(meter(193)), seconds=30.0) == (34.0, 33)
    assert hand.came(report(meter(193)), seconds=10.0) == (14.0, 13)
    assert hand.came(report(meter(193)), seconds=1e6) == (19 * STEP + 4.0, 193)


def test_no_more_steps_are_kept_than_the_longest_window_has() -> None:
    hand = Hand()
    for count in range(3 * DETAIL):
        hand.step(report(meter(count)))
    window, came = hand.came(seconds=1e6)
    assert (window, came) == (DETAIL * STEP, DETAIL)


def values(history: FlowHistory, name: str) -> list[float | None]:
    return list(next(one.values for one in history.series if one.name == name))


def test_the_hour_goes_on_step_by_step_and_is_a_gap_before_the_first() -> None:
    hand = Hand(length=4)
    hand.step(report(meter(0)))
    hand.step(report(meter(20, in_flight=2)), queued=3)
    hand.step(report(meter(20)))
    history = hand.rates.hour(None)
    assert values(history, "requests") == [None, None, 2.0, 0.0]
    assert values(history, "completion_tokens") == [None, None, 20.0, 0.0]
    assert values(history, "in_flight") == [None, None, 2.0, 0.0]
    assert values(history, "queued") == [None, None, 3.0, 0.0]
    first = values(history, "first_token")
    assert first[:2] == [None, None]
    assert first[2] == pytest.approx(0.4875, rel=1e-3)
    assert first[3] is None  # nothing was measured in it: no zero
    assert history.until == 1030.0
    assert values(hand.rates.hour("m"), "requests") == [None, None, 2.0, 0.0]
    assert values(hand.rates.hour("other"), "requests") == [None] * 4


def test_of_many_models_those_are_kept_that_were_asked_last() -> None:
    hand = Hand(length=200)
    hand.step(report())
    for number in range(MODELS_MOST + 20):
        hand.step(report(*(meter(1, f"m{n}") for n in range(number + 1))))
    assert values(hand.rates.hour("m0"), "requests") == [None] * 200
    assert values(hand.rates.hour(f"m{MODELS_MOST + 19}"), "requests")[-1] == 0.1
    assert len(hand.rates._hours) == MODELS_MOST + 1


def test_a_model_of_which_nothing_came_for_an_hour_is_forgotten() -> None:
    hand = Hand(length=3)
    hand.step(report(meter(0)))
    hand.step(report(meter(5)))
    assert "m" in hand.rates._hours
    for _ in range(4):
        hand.step(report(meter(5)))
    assert "m" not in hand.rates._hours


def test_what_is_forgotten_begins_anew() -> None:
    hand = Hand()
    hand.step(report(meter(5)))
    hand.step(report(meter(9)))
    hand.rates.forget()
    assert hand.came(report(meter(12))) == (0.0, 0)
    assert values(hand.rates.hour(None), "requests") == [None] * 12


# Figures.


def test_errors_are_told_by_status_and_by_code_and_requests_of_no_model_are_counted() -> None:
    made = Meter("m")
    made.replied(200)
    made.replied(502)
    made.duration.add(1.0)
    made.duration.add(1.0)
    made.errors["engine_failed"] = 1
    made.engine_aborts = 1
    nobody = Meter("")
    nobody.replied(401)
    nobody.replied(401)
    nobody.errors["invalid_api_key"] = 2
    deltas = {("g", "m"): made.record(), ("g", ""): nobody.record()}
    told = flow(deltas, 10.0, (), {}, (Gateway(id="g", connected=True),), at=5.0)
    whole = told.whole
    assert (whole.requests, whole.requests_per_second, whole.errors_per_second) == (4, 0.4, 0.4)
    assert [(one.code, one.count) for one in whole.statuses] == [(401, 2), (502, 1)]
    assert [(one.code, one.count) for one in whole.codes] == [
        ("invalid_api_key", 2),
        ("engine_failed", 1),
    ]
    assert [one.name for one in told.models] == ["m", ""]
    assert failed(made.record()) == 2


def test_nothing_is_called_a_rate_before_anything_was_measured() -> None:
    told = flow({}, 0.2, (), {}, (), at=5.0)
    assert told.whole.requests_per_second is None
    assert told.whole.first_token is None


def test_a_gateway_that_is_away_has_no_figures_and_its_requests_are_in_no_sum() -> None:
    there = report(meter(1, in_flight=3), gateway="g1")
    gateways = (Gateway(id="g1", connected=True), Gateway(id="g2", connected=False))
    told = flow({}, 60.0, (there,), {"g1": {"m": 2}}, gateways, at=5.0)
    assert (told.whole.in_flight, told.whole.queued) == (3, 2)
    assert [(one.name, one.figures is None) for one in told.gateways] == [
        ("g1", False),
        ("g2", True),
    ]
    (model,) = told.models
    assert (model.name, model.in_flight, model.queued) == ("m", 3, 2)


def test_a_difference_of_traffic_has_only_what_rose() -> None:
    before, after = Meter("m"), Meter("m")
    for made, times in ((before, 1), (after, 3)):
        for _ in range(times):
            made.replied(200)
            made.refusals["queue_full"] = made.refusals.get("queue_full", 0) + 1
        made.errors["internal"] = 1
        made.prompt = 10 * times
    came = since(after.record(), before.record())
    assert [(one.code, one.count) for one in came.replies] == [(200, 2)]
    assert [(one.code, one.count) for one in came.refusals] == [("queue_full", 2)]
    assert came.errors == ()
    assert came.prompt_tokens == 20


def test_while_no_gateway_was_heard_for_a_step_nothing_is_known_and_it_is_not_nothing() -> None:
    hand = Hand()
    hand.step()
    hand.step()
    assert hand.came() == (0.0, 0), "none is connected"
    assert hand.came(report(meter(9))) == (0.0, 0), "one came since: what it did is not known"
    hand.step(report(meter(1000)))
    hand.now += 2.0
    assert hand.came(report(meter(1006))) == (2.0, 6), "and not 6 in all the time before"
    hand.now -= 2.0
    hand.step(report(meter(1010)))
    requests = hand.rates.hour(None).series[0].values
    assert requests[-3:] == (None, None, 1.0)
    hand.step()
    assert hand.rates.hour(None).series[0].values[-3:] == (None, 1.0, None)


def test_a_gap_takes_the_place_of_what_was_an_hour_ago() -> None:
    hand = Hand(length=4)
    for count in range(6):
        hand.step(report(meter(10 * count)))
    hand.step()
    assert hand.rates.hour(None).series[0].values == (1.0, 1.0, 1.0, None)
