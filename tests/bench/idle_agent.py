"""What an agent costs that has nothing to do: processor time and memory, its helpers included.

    python -m tests.bench.idle_agent [--seconds 60] [--json]

A control plane and one agent run as real processes on this machine, without engines and models and
with the default heartbeat. Processor time is that of the agent, of what it keeps running, and of
the tools that it ran and that have ended. Goals: less than 0.5 % of a core, less than 80 MB.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from llmgw.local.cluster import Layout, LocalCluster

GOAL_PERCENT = 0.5
GOAL_BYTES = 80_000_000
_SETTLE = 30.0
_TICK = os.sysconf("SC_CLK_TCK")


def measure(seconds: float = 60.0) -> dict[str, object]:
    """Return percent of a core, and bytes: of the agent alone, and with its helpers.

    `rss_bytes` of all counts pages that they share once for each; `pss_bytes` counts them once.
    """
    with tempfile.TemporaryDirectory(prefix="llmgw-idle-") as directory:
        cluster = LocalCluster(
            Layout(
                directory=directory,
                weights=f"{directory}/weights",
                engines=f"{directory}/engines",
                settings={"engines": {}},
            ),
            os.environ,
        )
        try:
            cluster.start(1)
            return _measured(cluster.owner.services["node-1"].pid, seconds)
        finally:
            cluster.end()


def _measured(agent: int, seconds: float) -> dict[str, object]:
    _pass(_SETTLE)
    before, began = _ticks(agent), time.monotonic()
    _pass(seconds)
    used, passed = (_ticks(agent) - before) / _TICK, time.monotonic() - began
    pids = tuple(_family(agent))
    return {
        "cpu_percent": round(100 * used / passed, 3),
        "cpu_goal_percent": GOAL_PERCENT,
        "seconds": round(passed, 1),
        "agent_rss_bytes": _memory(agent, "Rss:"),
        "rss_bytes": sum(_memory(pid, "Rss:") for pid in pids),
        "pss_bytes": sum(_memory(pid, "Pss:") for pid in pids),
        "rss_goal_bytes": GOAL_BYTES,
        "processes": len(pids),
    }


def _pass(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251  (a measurement over real time)


def _family(pid: int) -> Iterator[int]:
    """Return a process and all below it."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from _family(int(child))


def _ticks(agent: int) -> int:
    """Return the clock ticks of a process and all below it, those that have ended too."""
    total = 0
    for pid in _family(agent):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure(asked.seconds)
    if asked.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:18} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
