"""A few seeds of the longest runs: what fails here is replayed by the command it prints.

The seeds are the same in each run, so that what fails was broken by the change at hand. New ones
are for `python -m tests.sim --first-seed N`, in numbers that no check of a change has time for.
"""

from tests.sim.__main__ import run
from tests.sim.simulation import Options

FIRST, COUNT = 953_928, 3
OPTIONS = Options(agents=10, seconds=1500)


def test_seeds_hold_every_invariant():
    totals = run(range(FIRST, FIRST + COUNT), OPTIONS, jobs=1)
    assert not totals.failed, f"failed seeds: {totals.failed}; see the commands above"
    assert sum(totals.faults.values()) > 50
    assert len([path for path, count in totals.coverage.items() if count]) > 20
