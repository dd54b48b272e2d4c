"""A gateway under a steady load for minutes: memory stays flat, nothing leaks, nothing fails.

    python -m tests.bench.gateway_soak [--minutes 10] [--share 0.7]

Half of the load are streams with a token each 20 ms, half short requests, as many of each as take
their part of `--share` of a core by what they cost in a first measurement. Exit status 1 when
memory grew, a request failed, or something is left open behind it.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.gateway.machine import Engines, Load, cpu_us, resident, tree
from tests.bench.gateway.measures import PACED, WORKS, cost, request
from tests.bench.gateway.ours import Ours

LOOK = 5.0
"""Seconds between two looks at memory."""
FLAT = 1.02
"""How much the last fifth may have over the second: the first one is warming up."""
ROOM = 1 << 20
"""Bytes that it may have beyond that."""
A_SECOND = 50
"""Chunks of one stream."""


def main() -> int:
    """Run; print what was seen; return 1 when it is not what it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--share", type=float, default=0.7, help="of a core")
    asked = parser.parse_args()
    engines = Engines()
    ours = Ours(engines.ports)
    try:
        seen = soak(ours, engines, asked.minutes * 60, asked.share)
    finally:
        ours.end()
        engines.end()
    seen["complaints"] = list(complaints(seen))
    print(json.dumps(seen, indent=1))
    return 1 if seen["complaints"] else 0


def soak(ours: Ours, engines: Engines, seconds: float, share: float) -> dict[str, Any]:
    """Load it for so long; return what was seen."""
    short, paced = WORKS[0], next(work for work in WORKS if work.name == PACED)
    half = share * 1e6 / 2
    rate = half / cost(ours, engines, short, 2.0)["us"]
    streams = max(1, round(half / A_SECOND / cost(ours, engines, paced, 2.0)["us"]))
    idle = sockets(ours.pid)
    loads = [
        Load("repeat", ours.port, request("short", 600, ours), 64, seconds, rate),
        Load("repeat", ours.port, request("paced", 600, ours), streams, seconds),
    ]
    began, before = time.monotonic(), cpu_us(ours.pid)
    memory = list(watched(ours, seconds))
    used = (cpu_us(ours.pid) - before) / 1e6 / (time.monotonic() - began)
    told = [load.told() for load in loads]
    for load in loads:
        load.end()
    end = time.monotonic() + 10
    while (engines.streams() or sockets(ours.pid) > idle) and time.monotonic() < end:
        time.sleep(0.1)  # noqa: TID251 - other programs
    return {
        "rate": round(rate),
        "streams": streams,
        "share_of_a_core": round(used, 3),
        "short": told[0],
        "paced": told[1],
        "memory_mib": [round(one / 2**20, 1) for one in memory],
        "memory_second_fifth": fifth(memory, 1),
        "memory_last_fifth": fifth(memory, 4),
        "streams_left": engines.streams(),
        "sockets_more": sockets(ours.pid) - idle,
    }


def watched(ours: Ours, seconds: float) -> Iterator[int]:
    """Yield the gateway's memory from time to time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield resident(ours.pid)
        time.sleep(LOOK)  # noqa: TID251 - other programs


def fifth(memory: list[int], number: int) -> float:
    """Return the median of one fifth of what was seen."""
    length = max(1, len(memory) // 5)
    return statistics.median(memory[number * length : (number + 1) * length] or memory[-1:])


def sockets(pid: int) -> int:
    """Return how many sockets a process and its descendants have."""
    count = 0
    for one in tree(pid):
        for link in Path(f"/proc/{one}/fd").iterdir():
            try:
                count += link.readlink().name.startswith("socket:")
            except OSError:
                continue
    return count


def complaints(seen: dict[str, Any]) -> Iterator[str]:
    """Yield what is not as it should be."""
    if seen["memory_last_fifth"] > seen["memory_second_fifth"] * FLAT + ROOM:
        yield "memory grew"
    for name in ("short", "paced"):
        if seen[name]["errors"] or seen[name]["refused"]:
            yield f"{name}: requests failed"
    if seen["streams_left"]:
        yield "engines still work for nobody"
    if seen["sockets_more"] > 0:
        yield "connections are left open"


if __name__ == "__main__":
    sys.exit(main())
