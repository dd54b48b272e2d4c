"""A position is told when every worker has it, once, and never before."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.reach import Reach
from llmgw.model.feed import Position

WORKERS = 2
STEPS = st.lists(st.sampled_from(["change", "unknown", "take 0", "take 1", "die 0", "die 1"]))


def at(number: int) -> Position:
    return Position(epoch="e", number=number)


def test_a_position_is_told_once_the_slowest_worker_has_it():
    reach = Reach()
    reach.changed(at(10))
    assert reach.news([0, 1]) is None
    assert reach.news([1, 1]) == at(10)
    assert reach.news([1, 1]) is None


def test_of_several_the_newest_is_told():
    reach = Reach()
    for number in (10, 11, 12):
        reach.changed(at(number))
    assert reach.news([2, 3]) == at(11)
    assert reach.news([3, 3]) == at(12)


def test_a_place_without_a_worker_is_not_waited_for():
    reach = Reach()
    reach.changed(at(10))
    assert reach.news([None, 0]) is None
    assert reach.news([None, None]) == at(10)


@given(STEPS)
def test_no_position_is_told_that_a_worker_lacks(steps):
    reach = Reach()
    taken: list[int | None] = [0] * WORKERS
    told: list[int] = []
    for step in steps:
        if step in {"change", "unknown"}:
            # A position's number is that of the state, so that they can be compared.
            reach.changed(at(reach.number + 1) if step == "change" else None)
        else:
            worker = int(step[-1])
            taken[worker] = reach.number if step.startswith("take") else None
        news = reach.news(taken)
        if news is not None:
            assert all(number is None or number >= news.number for number in taken)
            told.append(news.number)
    assert told == sorted(set(told))
