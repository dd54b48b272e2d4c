"""Which engine, and when one that failed is tried again."""

import random
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import prefixes
from llmgw.gateway.route.choice import Prompt, choose, open_endpoints, soonest
from llmgw.gateway.route.health import FIRST, MOST, PROBE, Health
from llmgw.gateway.route.prefix import mark_of


@dataclass(eq=False)
class Place:
    number: int = 0
    load: int = 0
    last_resort: bool = False
    strained: bool = False
    health: Health = field(default_factory=Health)

    @property
    def mark(self) -> int:
        return mark_of(self.number)


TABLE = prefixes.private()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.randoms())
def test_without_a_prompt_the_choice_is_one_of_the_least_loaded(loads, rng):
    places = [Place(number, load) for number, load in enumerate(loads)]
    chosen, _ = choose(places, loads, Prompt([]), TABLE, rng.randrange)
    assert chosen.load == min(loads)


def test_ties_are_broken_at_random():
    places = [Place(number) for number in range(4)]
    rng = random.Random(1)
    chosen = {
        choose(places, [0, 0, 0, 0], Prompt([]), TABLE, rng.randrange)[0].number for _ in range(100)
    }
    assert len(chosen) == 4


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
    health.chosen(10.0 + FIRST)
    assert not health.usable(10.0 + FIRST)  # one probe at a time
    health.worked()
    assert health.usable(10.0 + FIRST)


def test_requests_that_fail_together_count_as_one_failure():
    health = Health()
    for _ in range(64):
        health.failed(0.0, 1.0, "reset")
    assert health.out_until == FIRST


def test_only_the_probe_lets_another_one_go():
    health = Health()
    assert not health.chosen(0.0)
    health.failed(0.0, 1.0, "refused")
    assert health.chosen(FIRST)


def test_a_probe_that_tells_nothing_lets_another_one_go():
    health = Health()
    health.failed(0.0, 1.0, "refused")
    health.chosen(FIRST)
    health.released()
    assert health.usable(FIRST)


def test_a_probe_that_is_long_about_its_answer_keeps_others_out_for_a_moment_only():
    health = Health()
    health.failed(0.0, 1.0, "reset")
    health.chosen(FIRST)
    assert not health.usable(FIRST + PROBE - 0.01)
    assert health.usable(FIRST + PROBE)


def test_an_engine_with_a_probe_on_its_way_is_open_only_where_no_other_is():
    probed, well = Place(), Place()
    probed.health.failed(0.0, 1.0, "reset")
    assert open_endpoints([probed], [], FIRST - 0.01) == []
    probed.health.chosen(FIRST)
    assert open_endpoints([probed, well], [], FIRST) == [well]
    assert open_endpoints([probed], [], FIRST) == [probed]
    assert open_endpoints([probed], [probed], FIRST) == []


@given(st.integers(1, 40), st.floats(0, 1))
def test_the_wait_doubles_and_is_bounded(failures, jitter):
    health = Health()
    waits = []
    for _ in range(failures):
        now = health.out_until
        health.failed(now, jitter, "x")
        waits.append(health.out_until - now)
    assert FIRST / 2 <= waits[0] <= FIRST
    assert all(later >= wait * 0.999 for wait, later in pairwise(waits))
    assert waits[-1] <= MOST * 1.001
    assert failures < 7 or waits[-1] >= MOST / 2


def test_the_soonest_return_is_what_a_client_is_told():
    first, second = Place(), Place()
    first.health.failed(0.0, 1.0, "x")
    second.health.failed(1.0, 1.0, "x")
    assert soonest([first, second], 0.25) == FIRST - 0.25
    assert soonest([], 5.0) == 0.0
