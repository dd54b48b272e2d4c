"""A few fresh seeds in each run, printed: what fails here is replayed by the command it prints."""

from tests.sim.__main__ import run
from tests.sim.conftest import fresh_seed
from tests.sim.simulation import Options

COUNT = 3
OPTIONS = Options(agents=10, seconds=1500)


def test_fresh_seeds_hold_every_invariant():
    first = fresh_seed()
    totals = run(range(first, first + COUNT), OPTIONS, jobs=1)
    assert not totals.failed, f"failed seeds: {totals.failed}; see the commands above"
    assert sum(totals.faults.values()) > 50
    assert len([path for path, count in totals.coverage.items() if count]) > 20
