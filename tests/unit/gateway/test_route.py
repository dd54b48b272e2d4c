"""Which engine, and when one that failed is tried again."""

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.route.choice import least_loaded, open_endpoints, soonest
from llmgw.gateway.route.health import FIRST, MOST, Health


@dataclass(eq=False)
class Place:
    load: int = 0
    last_resort: bool = False
    health: Health = field(default_factory=Health)


def below(limit: int) -> int:
    return random.Random(7).randrange(limit)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.randoms())
def test_the_choice_is_one_of_the_least_loaded(loads, rng):
    places = [Place(load) for load in loads]
    chosen = least_loaded(places, lambda place: place.load, rng.randrange)
    assert chosen is not None
    assert chosen.load == min(loads)


def test_ties_are_broken_at_random():
    places = [Place() for _ in range(4)]
    rng = random.Random(1)
    chosen = {id(least_loaded(places, lambda place: place.load, rng.randrange)) for _ in range(100)}
    assert len(chosen) == 4


def test_of_none_there_is_no_choice():
    assert least_loaded([], lambda place: 0, below) is None


def test_last_resorts_wait_for_the_others_to_fail():
    usual, last = Place(), Place(last_resort=True)
    assert open_endpoints([usual, last], [], 0.0) == [usual]
    assert open_endpoints([usual, last], [usual], 0.0) == [last]
    usual.health.failed(0.0, 1.0, "gone")
    assert open_endpoints([usual, last], [], 0.1) == [last]


def test_a_failure_takes_an_engine_out_and_one_probe_lets_it_back():
    health = Health()
    assert health.usable(0.0)
    health.failed(10.0, 1.0, "refused")
    assert not health.usable(10.0 + FIRST - 0.01)
    assert health.usable(10.0 + FIRST)
    health.chosen()
    assert not health.usable(10.0 + FIRST)  # one probe at a time
    health.worked()
    assert health.usable(10.0 + FIRST)


def test_a_probe_that_tells_nothing_lets_another_one_go():
    health = Health()
    health.failed(0.0, 1.0, "refused")
    health.chosen()
    health.released()
    assert health.usable(FIRST)


@given(st.integers(1, 40), st.floats(0, 1))
def test_the_wait_doubles_and_is_bounded(failures, jitter):
    health = Health()
    waits = []
    for _ in range(failures):
        health.failed(0.0, jitter, "x")
        waits.append(health.out_until)
    assert waits == sorted(waits)
    assert FIRST / 2 <= waits[0] <= FIRST
    assert waits[-1] <= MOST


def test_the_soonest_return_is_what_a_client_is_told():
    first, second = Place(), Place()
    first.health.failed(0.0, 1.0, "x")
    second.health.failed(1.0, 1.0, "x")
    assert soonest([first, second], 0.25) == FIRST - 0.25
    assert soonest([], 5.0) == 0.0
