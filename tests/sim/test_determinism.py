"""The same seed is the same run, whatever else differs: hashes of strings, addresses, speed."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from llmgw.local.sim.loop import SimLoop
from tests.sim.simulation import Options, simulate
from tests.sim.watch import Watch

ROOT = Path(__file__).parents[2]
SEED, MINUTES = 7, 7


def trace(hash_seed: str) -> str:
    code = (
        "from tests.sim.simulation import Options, simulate;"
        f"one = simulate({SEED}, Options(seconds={MINUTES * 60}));"
        "print(one.trace, one.steps)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_seed_takes_the_same_steps_whatever_the_hashes_of_strings_are():
    first = trace("0")
    assert len(first.split()) == 2
    assert [trace("1"), trace("4711")] == [first, first]


def test_a_seed_takes_the_same_steps_after_another_in_the_same_process():
    first = simulate(SEED, Options(agents=4, seconds=300))
    simulate(SEED + 1, Options(agents=4, seconds=200))
    again = simulate(SEED, Options(agents=4, seconds=300))
    assert (again.trace, again.steps) == (first.trace, first.steps)
    assert first.violation is None


def test_another_seed_is_another_run():
    traces = {simulate(seed, Options(agents=4, seconds=120)).trace for seed in (1, 2, 3)}
    assert len(traces) == 3


def test_where_weights_lie_is_no_part_of_the_trace():
    traces = set()
    for directory in ("/tmp/one", "/tmp/another"):
        with closing(SimLoop()) as loop:
            watch = Watch(loop, directory)
            words = f"0 B free below {directory}/node-000/w-1.partial"
            watch.note(words)
            watch.take("info", {"event": f"failed: {words}"})
            traces.add(watch.trace.hexdigest())
    assert len(traces) == 1
