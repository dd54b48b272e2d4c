"""Runs seeds: `python -m tests.sim --seeds 200 --hours 1 --agents 10 [--first-seed N]`.

Each seed is one run of a whole fleet on virtual time. A seed that fails prints what failed, the
last lines before it, and the command that replays it exactly.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.sim.coverage import DERIVED, PATHS
from tests.sim.simulation import Options, Outcome, simulate

ALL_PATHS_IN = 50 * 3600.0
"""Simulated seconds in which every path has to be taken; a smaller set only says which were not."""
SHOWN = 60
"""Lines before a violation."""


@dataclass
class Totals:
    """Everything that runs gave, added up."""

    seeds: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    checks: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    edits: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome, cpu: float) -> None:
        """Add one run."""
        self.seeds += 1
        self.seconds += outcome.seconds
        self.cpu += cpu
        self.checks += outcome.checks
        self.steps += outcome.steps
        self.faults += outcome.faults
        self.edits += outcome.edits
        self.requests += outcome.requests
        self.coverage += outcome.coverage
        if outcome.violation is not None:
            self.failed.append(outcome.seed)

    def never(self) -> list[str]:
        """Return the paths that no run took."""
        return [name for name in (*PATHS, *DERIVED) if not self.coverage[name]]


def timed(seed: int, options: Options) -> tuple[Outcome, float]:
    """Run a seed; return what came of it, and the CPU seconds that it took."""
    began = time.process_time()
    outcome = simulate(seed, options)
    return outcome, time.process_time() - began


def replay(outcome: Outcome, options: Options) -> str:
    """Return the command that runs a seed again."""
    return (
        f"python -m tests.sim --first-seed {outcome.seed} --seeds 1 "
        f"--agents {options.agents} --minutes {options.seconds / 60:g}"
    )


def show(outcome: Outcome, options: Options) -> None:
    """Print a run that failed."""
    lines = [line for line in outcome.last if " -- steps " not in line]
    print(f"\nseed {outcome.seed} failed after {outcome.seconds:.0f} simulated s:")
    for line in lines[-SHOWN:]:
        print(f"  {line[:240]}")
    print(f"  {outcome.violation}\nagain: {replay(outcome, options)}\n", flush=True)


def summary(totals: Totals) -> None:
    """Print what all runs gave."""
    hours = totals.seconds / 3600
    each = totals.cpu / hours if hours else 0.0
    print(f"{totals.seeds} seeds, {hours:.1f} simulated hours, {totals.steps} steps")
    print(f"{totals.cpu:.0f} s of CPU: {each:.1f} s per simulated hour")
    print(f"{totals.checks} checks after changes and once each simulated second")
    for title, counts in (
        ("faults", totals.faults),
        ("people", totals.edits),
        ("requests", totals.requests),
    ):
        print(f"{title}: {sum(counts.values())}")
        for name, count in counts.most_common():
            print(f"  {count:7} {name}")
    print("paths that the product took:")
    for name in (*PATHS, *DERIVED):
        print(f"  {totals.coverage[name]:7} {name}")


def run(seeds: range, options: Options, jobs: int) -> Totals:
    """Run seeds and print those that fail."""
    totals = Totals()
    if jobs == 1:
        outcomes = (timed(seed, options) for seed in seeds)
        for outcome, cpu in outcomes:
            _take(totals, outcome, cpu, options)
        return totals
    with ProcessPoolExecutor(jobs) as pool:
        for outcome, cpu in pool.map(timed, seeds, [options] * len(seeds)):
            _take(totals, outcome, cpu, options)
    return totals


def _take(totals: Totals, outcome: Outcome, cpu: float, options: Options) -> None:
    totals.add(outcome, cpu)
    if outcome.violation is not None:
        show(outcome, options)
    else:
        words = (
            f"seed {outcome.seed}: {outcome.seconds:.0f} s, trace {outcome.trace}, CPU {cpu:.1f} s"
        )
        print(words, flush=True)


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--hours", type=float, help="simulated, each seed")
    parser.add_argument("--minutes", type=float, help="simulated, each seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    seconds = 60 * asked.minutes if asked.minutes is not None else 3600 * (asked.hours or 1.0)
    options = Options(agents=asked.agents, seconds=seconds)
    totals = run(range(asked.first_seed, asked.first_seed + asked.seeds), options, asked.jobs)
    summary(totals)
    never = totals.never()
    if never:
        print(f"never taken: {', '.join(never)}")
    if totals.failed:
        print(f"failed seeds: {', '.join(map(str, totals.failed))}")
    missing = bool(never) and totals.seconds >= ALL_PATHS_IN
    return 1 if totals.failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
