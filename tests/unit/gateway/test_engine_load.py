"""What a replica has to do: what its engine says, what it does not say, and how it starts."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.route.load import LEAST_SHARE, PEAK, SLOW_START, Load, assume


def told(running: int | None = None, waiting: int | None = None, **more: float) -> Load:
    load = Load()
    load.said(running, waiting, more.get("cache_used"), more.get("until", 15.0))
    return load


def totals(loads: list[Load], owns: list[int], now: float = 1.0) -> list[float]:
    assume(loads, now)
    return [load.total(own, now) for load, own in zip(loads, owns, strict=True)]


def test_what_others_have_at_an_engine_is_what_it_says_beyond_our_own():
    load = Load()
    load.seen(4, 0.0)
    load.said(7, 2, None, 15.0)
    assert totals([load], [4]) == [9.0]


def test_what_we_had_there_a_while_ago_is_not_taken_for_others():
    load = Load()
    load.seen(9, 0.0)
    load.seen(0, PEAK / 2)
    load.said(9, 0, None, 30.0)
    assert totals([load], [0], PEAK) == [0.0]
    load.seen(0, PEAK)
    load.seen(0, 2 * PEAK)
    load.seen(0, 3 * PEAK)
    load.said(9, 0, None, 60.0)
    assert totals([load], [0], 3 * PEAK) == [9.0]


def test_an_engine_that_says_nothing_is_taken_for_its_peers_middle_and_never_for_idle():
    silent, loads = Load(), [told(4, 0), told(10, 2), told(6, 0)]
    assert totals([silent, *loads], [1, 0, 0, 0]) == [7.0, 4.0, 12.0, 6.0]


def test_figures_that_are_too_old_say_nothing():
    old, fresh = told(0, 0, until=15.0), told(8, 0, until=40.0)
    assert totals([old, fresh], [0, 0], 14.9) == [0.0, 8.0]
    assert totals([old, fresh], [0, 0], 15.0) == [8.0, 8.0]


def test_where_nobody_says_anything_our_own_count_is_all_there_is():
    assert totals([Load(), Load()], [3, 0]) == [3.0, 0.0]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=7), st.integers(0, 20))
def test_silence_never_wins(others: list[int], own: int):
    silent = Load()
    loads = [told(count, 0) for count in others]
    found = totals([silent, *loads], [own, *(own for _ in others)])
    assert found[0] >= min(found[1:])


def test_requests_that_wait_or_a_full_cache_make_an_engine_strained_until_it_says_nothing():
    assert told(3, 1).strained
    assert told(3, 0, cache_used=0.99).strained
    assert not told(3, 0, cache_used=0.5).strained
    old = told(3, 1, until=15.0)
    assume([old], 20.0)
    assert not old.strained


def test_a_replica_that_is_back_comes_to_its_share_slowly():
    load, peer = Load(), Load()
    load.starts(100.0)
    shares = [100.0, 100.0 + SLOW_START / 2, 100.0 + SLOW_START]
    found = [load.total(1, now) for now in shares]
    assert found == [2 / LEAST_SHARE - 1, 3.0, 1.0]
    assert load.total(0, 100.0) < peer.total(10, 100.0)  # it gets some, but not all that comes
    assert load.total(1, 100.0) > peer.total(10, 100.0)


def test_replicas_that_all_start_share_as_if_none_did():
    first, second = Load(), Load()
    first.starts(0.0)
    second.starts(0.0)
    assert first.total(3, 5.0) == second.total(3, 5.0) > second.total(2, 5.0)
