"""The queue of a model: fair by tokens, by priority, and nobody waits for ever."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.admission.queue import AGE, FairQueue, Place, Served

KEYS = ("a", "b", "c")


def drain(queue: FairQueue[str], count: int, tokens: dict[str, int], now: float = 0.0) -> list[str]:
    """Let so many go, one after the other, each using what its key's requests use."""
    gone = []
    for _ in range(count):
        place = queue.next(now)
        assert place is not None
        queue.drop(place)
        served = Served(queue.began(place.share.key))
        served.completion(tokens[place.share.key])
        served.closed()
        gone.append(place.request)
    return gone


def test_requests_of_one_key_go_in_the_order_in_which_they_came():
    queue: FairQueue[str] = FairQueue()
    for number in range(5):
        queue.put(str(number), "a", 0, float(number))
    assert list(queue.order(9.0)) == list("01234")
    assert drain(queue, 5, {"a": 7}) == list("01234")
    assert queue.next(0.0) is None


def test_a_key_with_many_requests_does_not_keep_one_with_few_waiting():
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.put("many", "a", 0, float(number))
    queue.put("few", "b", 0, 200.0)
    assert drain(queue, 2, {"a": 50, "b": 50}, 200.0).count("few") == 1


def test_keys_get_the_same_tokens_and_not_the_same_requests():
    queue: FairQueue[str] = FairQueue()
    tokens = {"a": 1000, "b": 100}
    for number in range(600):
        queue.put("a", "a", 0, float(number))
        queue.put("b", "b", 0, float(number))
    gone = drain(queue, 440, tokens)
    used = {key: gone.count(key) * tokens[key] for key in tokens}
    assert 0.9 < used["a"] / used["b"] < 1.1


@settings(max_examples=40)
@given(
    st.tuples(*(st.integers(1, 2000) for _ in KEYS)),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_of_keys_that_always_wait_none_is_ahead_by_more_than_some_requests(
    sizes, slots, rng: random.Random
):
    """Whatever they use, and however many run at once; the bound is that of the algorithm."""
    queue: FairQueue[str] = FairQueue()
    used = dict.fromkeys(KEYS, 0)
    running: list[tuple[str, int, Served]] = []
    for _ in range(slots + 1):
        for key in KEYS:
            queue.put(key, key, 0, 0.0)
    for step in range(200):
        place = queue.next(0.0)
        assert place is not None
        queue.drop(place)
        key = place.share.key
        running.append((key, rng.randint(1, sizes[KEYS.index(key)]), Served(queue.began(key))))
        queue.put(key, key, 0, float(step))
        if len(running) > slots:
            key, tokens, served = running.pop(rng.randrange(len(running)))
            served.completion(tokens)
            served.closed()
            used[key] += tokens
    most = max(*sizes, 256)
    assert max(used.values()) - min(used.values()) <= (2 * slots + 4) * most


def test_a_key_that_comes_back_has_saved_nothing_up():
    queue: FairQueue[str] = FairQueue()
    for _ in range(50):
        served = Served(queue.began("a"))
        served.completion(1000)
        served.closed()
    for number in range(20):
        queue.put("a", "a", 0, float(number))
        queue.put("b", "b", 0, float(number))
    gone = drain(queue, 10, {"a": 1000, "b": 1000})
    assert 4 <= gone.count("b") <= 6


def test_what_a_long_stream_uses_counts_while_it_runs():
    queue: FairQueue[str] = FairQueue()
    stream = Served(queue.began("a"))
    stream.completion(100_000)
    queue.put("a", "a", 0, 0.0)
    other = Served(queue.began("b"))
    queue.put("b", "b", 0, 1.0)
    place = queue.next(1.0)
    assert place is not None
    assert place.request == "b"
    stream.closed()
    other.closed()


def test_a_higher_priority_goes_first_and_a_lower_one_rises_with_time():
    queue: FairQueue[str] = FairQueue()
    queue.put("low", "a", 0, 0.0)
    for _ in range(3):
        queue.put("high", "b", 2, 0.0)
    assert drain(queue, 3, {"a": 1, "b": 1}, 5.0) == ["high"] * 3
    queue.put("high", "b", 2, 2 * AGE + 1)
    assert list(queue.order(2 * AGE - 1)) == ["high", "low"]
    assert list(queue.order(3 * AGE)) == ["low", "high"]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-2, 2)), min_size=1, max_size=40))
def test_nobody_waits_for_ever_however_many_more_important_come(waiting):
    """One is served a second, one of the highest priority comes each second."""
    queue: FairQueue[str] = FairQueue()
    for key, level in waiting:
        queue.put("old", key, level, 0.0)
    now, left = 0.0, len(waiting)
    tokens = dict.fromkeys((*KEYS, "vip"), 100)
    while left:
        now += 1.0
        queue.put("new", "vip", 2, now)
        left -= drain(queue, 1, tokens, now).count("old")
        assert now < 4 * AGE + 4 * len(waiting) + 8


@pytest.mark.parametrize("above", [1, 2, 3])
def test_where_more_comes_than_is_served_a_lower_priority_still_gets_its_places(above):
    """One is served a second and two more important come, all of which leave after a minute."""
    queue: FairQueue[str] = FairQueue()
    waiting: list[Place[str]] = []
    went = [0.0]
    high = 0
    for second in range(600):
        now = float(second)
        waiting += [queue.put("high", "vip", above, now) for _ in range(2)]
        if second % 5 == 0:
            waiting.append(queue.put("low", "a", 0, now))
        for late in [one for one in waiting if now - one.since >= 60.0]:
            queue.drop(late)
            waiting.remove(late)
        place = queue.next(now)
        assert place is not None
        queue.go(place, now)
        waiting.remove(place)
        if place.request == "low":
            went.append(now)
        else:
            high += 1
    gaps = [after - before for before, after in pairwise(went)]
    assert gaps
    assert max(gaps) <= AGE * above
    assert 600 - went[-1] <= AGE * above + 1
    assert high > 600 * 0.85


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=40))
def test_the_queue_counts_what_waits(steps):
    queue: FairQueue[str] = FairQueue()
    places: list[Place[str]] = []
    for key, comes in steps:
        if comes or not places:
            places.append(queue.put(key, key, 0, 0.0))
        else:
            place = places.pop()
            queue.drop(place)
            queue.drop(place)
        assert len(queue) == len(places) == len(queue.all()) == len(list(queue.order(0.0)))
