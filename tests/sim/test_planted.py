"""Every planted bug is found, and not by chance: the path on which it lies was taken."""

import pytest

from tests.sim.planted import PLANTED
from tests.sim.simulation import Options, simulate

SEEDS = 50
OPTIONS = Options(agents=10, seconds=900)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_within_fifty_seeds(name: str):
    planted, taken = PLANTED[name], 0
    with planted.make():
        for seed in range(1, SEEDS + 1):
            outcome = simulate(seed, OPTIONS)
            taken += outcome.coverage[planted.path]
            if outcome.violation is not None:
                break
        else:
            pytest.fail(f"not found in {SEEDS} seeds; {planted.path}: {taken} times")
    print(f"{name}: seed {seed} after {outcome.seconds:.0f} s: {outcome.violation}")
    assert taken > 0, planted.path


def test_without_a_bug_the_seeds_that_find_the_bugs_are_green():
    assert [simulate(seed, OPTIONS).violation for seed in (1, 2, 3)] == [None, None, None]
