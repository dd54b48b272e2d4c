"""Which nodes count as lost together, and when that is over."""

from llmgw.plan.massloss import Silent, Together, follow, lost_together


def silent(*since: float, lost: bool = True) -> list[Silent]:
    return [Silent(f"n{k}", at, lost=lost, heard=True) for k, at in enumerate(since)]


def test_more_than_a_third_and_at_least_three_within_seconds_are_lost_together():
    assert lost_together(silent(0, 4, 9), 5, 10) == {"n0", "n1", "n2"}
    assert lost_together(silent(0, 4, 9), 6, 10) == frozenset()
    assert lost_together(silent(0, 4), 0, 10) == frozenset()


def test_nodes_that_are_lost_one_after_the_other_are_not_lost_together():
    assert lost_together(silent(0, 11, 22, 33), 2, 10) == frozenset()


def test_nodes_that_were_lost_before_are_not_counted_among_the_fleet():
    long_ago = [Silent(f"old{k}", -1000 - 100 * k, lost=True, heard=True) for k in range(10)]
    assert lost_together([*long_ago, *silent(0, 1, 2)], 5, 10) == {"n0", "n1", "n2"}


def test_nodes_that_are_only_silent_yet_count_when_one_of_them_is_lost():
    three = silent(0, 1, 2, lost=False)
    assert lost_together(three, 1, 10) == frozenset()
    first = Silent("n0", 0, lost=True, heard=True)
    assert lost_together([first, *three[1:]], 1, 10) == {"n0", "n1", "n2"}


def then(before: Together | None, gone: list[Silent], others: int, now: float) -> Together | None:
    return follow(before, gone, others, within=10, now=now, settling=15)


def test_it_ends_when_all_are_back_or_the_rest_had_time_to_follow():
    begun = then(None, silent(0, 1, 2), 1, 60)
    assert begun == Together(frozenset({"n0", "n1", "n2"}))
    assert then(begun, [], 4, 70) is None
    one_left = then(begun, silent(0), 3, 70)
    assert one_left == Together(frozenset({"n0"}), 70)
    assert then(one_left, silent(0), 3, 84) is not None
    assert then(one_left, silent(0), 3, 85) is None
    assert then(one_left, silent(0, 1, 2), 1, 84) == begun
