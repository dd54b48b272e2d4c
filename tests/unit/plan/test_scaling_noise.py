"""Scaling under load that goes up and down by chance: answered in time, forgotten in time, calm."""

import math
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import Scaling
from llmgw.plan.need import AGAIN
from llmgw.plan.spell import Spell, seen
from tests.unit.plan.one_model import One

WINDOW, DOWN_WINDOW = 30.0, 120.0
MOST = 5
A_REPLICA = 4
"""Requests, and tokens a second, that a replica takes by the rules of these tests."""

looks = st.lists(st.tuples(st.sampled_from((0.5, 2.0, 7.0)), st.booleans()), max_size=60)
traces = st.lists(
    st.tuples(st.sampled_from((2.0, 11.0, 40.0, 400.0)), st.integers(0, 24)), max_size=60
)


BY_FLIGHT = Scaling(in_flight=A_REPLICA, window=WINDOW, down_window=DOWN_WINDOW)
BY_TOKENS = Scaling(tokens_per_second=A_REPLICA, window=WINDOW, down_window=DOWN_WINDOW)


def scaled(rule: Scaling) -> One:
    one = One(replicas=1, max_replicas=MOST, scaling=rule)
    one.replicas = 1
    return one


def needed(load: float) -> int:
    return min(MOST, max(1, math.ceil(load / A_REPLICA)))


def most_since(told: list[tuple[float, bool]]) -> float:
    """Return for how much longer it was so than not, since the moment for which that is most."""
    spans = [
        after * (so + before - 1) for (_, before), (after, so) in pairwise([(0.0, False), *told])
    ]
    sums = [0.0, *accumulate(spans)]
    return sums[-1] - min(sums)


@given(looks)
def test_a_spell_lasts_as_long_as_it_was_so_less_the_time_for_which_it_was_not(
    told: list[tuple[float, bool]],
):
    spell: Spell | None = None
    now = 100.0
    for number, (after, so) in enumerate(told):
        now += after
        spell = seen(spell, now, so=so)
        assert (spell.lasts if spell else 0.0) == most_since(told[: number + 1])
        assert spell is None or spell.so == so


@given(st.lists(st.integers(0, 3), min_size=20, max_size=20), st.integers(2, 4))
def test_more_is_wanted_in_time_though_at_times_one_look_of_three_sees_no_overload(
    breaks: list[int], needs: int
):
    one = scaled(BY_FLIGHT)
    loads = [A_REPLICA * needs] * 60
    for number, kind in enumerate(breaks):
        if kind:
            loads[3 * number + kind - 1] = A_REPLICA
    wanted = set()
    for one.in_flight in loads:
        wanted.add(one.wanted(2.0))
    assert needs in wanted


@given(traces)
def test_each_change_is_one_that_the_windows_allow(trace: list[tuple[float, int]]):
    one = scaled(BY_FLIGHT)
    told: list[tuple[float, int]] = []
    changed = 0
    for after, load in trace:
        one.in_flight, before = load, one.replicas
        told.append((after, needed(load)))
        if one.settle(after) == before:
            continue
        since, changed = told[changed:], len(told) - 1
        if one.replicas > before:
            assert one.replicas == needed(load)
            assert most_since([(seconds, need > before) for seconds, need in since]) >= WINDOW
        else:
            late = [need for seconds, need in in_the_last(DOWN_WINDOW, since)]
            assert one.replicas >= max(late)
            assert max(late) < before


def in_the_last(window: float, told: list[tuple[float, int]]) -> list[tuple[float, int]]:
    ago, found = 0.0, []
    for seconds, need in reversed(told):
        if ago < window:
            found.append((seconds, need))
        ago += seconds
    return found


@given(traces, st.integers(0, 9), st.integers(0, 30), st.booleans())
def test_whatever_was_before_a_load_that_stays_ends_at_what_its_rule_asks_for(
    trace: list[tuple[float, int]], requests: int, made: int, by_tokens: bool
):
    one = scaled(BY_TOKENS if by_tokens else BY_FLIGHT)
    one.in_flight = requests
    for after, load in trace:
        one.tokens, one.in_flight = (load, requests) if by_tokens else (None, load)
        one.settle(after)
    one.tokens, one.in_flight = (made, requests) if by_tokens else (None, made)
    for _ in range(8 * MOST):
        one.settle(40.0)
    held = one.replicas
    one.settle(AGAIN)
    for _ in range(8 * MOST):
        one.settle(40.0)
    assert one.replicas == needed(made)
    assert held == one.replicas or by_tokens, "only what was tried in vain is held for longer"


@given(st.integers(1, 9), st.integers(5, 40))
def test_a_peak_that_is_over_is_forgotten_though_as_many_requests_stay(requests: int, peak: int):
    one = scaled(BY_TOKENS)
    one.in_flight = requests
    for made in (0.4, peak, 0.4, peak, 0.4):
        one.tokens = made
        wanted = [one.settle(40.0) for _ in range(12)]
        assert wanted[-1] == needed(made)


def test_a_replica_that_is_never_enough_alone_is_not_tried_alone_again_the_same_day():
    one = scaled(BY_TOKENS)
    one.in_flight = 6

    def of_passes(number: int) -> set[int]:
        wanted = set()
        for _ in range(number):
            one.tokens = 6 if one.replicas == 1 else 3
            wanted.add(one.settle(40.0))
        return wanted

    assert of_passes(20) == {1, 2}
    assert of_passes(600) == {2}
    assert of_passes(round(AGAIN / 40.0)) == {1, 2}
    assert of_passes(600) == {2}
