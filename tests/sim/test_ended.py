"""What a run leaves behind when it is over: nothing, however many programs were killed in it."""

import gc

from llmgw.local.sim.loop import SimLoop, SimTask
from tests.sim.simulation import Options, simulate


def test_nothing_of_a_run_is_left_in_memory_when_it_is_over():
    outcome = simulate(3, Options(agents=4, seconds=300))
    assert outcome.violation is None
    assert sum(count for kind, count in outcome.faults.items() if "killed" in kind) > 0
    left = [one for one in gc.get_objects() if isinstance(one, SimLoop | SimTask)]
    assert len(left) == 0
