"""How many requests are sent again: not more than a share of all, whatever fails."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.route.budget import MOST, RATE, SHARE, RetryBudget


def test_a_few_failures_are_all_tried_again():
    budget = RetryBudget()
    assert all(budget.spend(0.0) for _ in range(int(MOST)))
    assert not budget.spend(0.0)


def test_when_everything_fails_a_share_of_requests_is_sent_again():
    budget, again = RetryBudget(), 0
    for _ in range(1000):
        budget.asked()
        again += budget.spend(0.0) + budget.spend(0.0)
    assert 1000 * SHARE <= again <= 1000 * SHARE + MOST + 1


def test_a_model_that_is_asked_little_may_send_again_after_a_while():
    budget = RetryBudget()
    while budget.spend(0.0):
        pass
    assert not budget.left(0.5 / RATE)
    assert budget.spend(1.5 / RATE)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=200))
def test_it_is_never_more_than_was_paid_for(steps: list[tuple[bool, float]]):
    budget, now, asked, spent = RetryBudget(), 0.0, 0, 0
    for ask, pause in steps:
        now += pause
        if ask:
            budget.asked()
            asked += 1
        spent += budget.spend(now)
        assert spent <= MOST + SHARE * asked + RATE * now + 1e-6
