"""What it costs to see everything: a scrape of a large fleet, an hour of history, an idle agent.

    python -m tests.bench.telemetry [--nodes 300] [--scrapes 10] [--only scrape,history] [--json]

The scrape is of a real control plane with nodes of 8 GPUs that report every reading, over HTTP on
loopback, by a process of its own; with and without gzip, as Prometheus asks for it. A crowd of
twenty that scrape without a pause shows what that leaves for others. The longest
pause is how long the loop could do nothing else. The same samples are written by prometheus_client
in the same run: milliseconds are this machine's and its load's, the ratio is not.

Goals: less than 150 ms of processor a scrape of 300 nodes, no pause above 20 ms; an idle agent
below 0.5 % of a core and 80 MB; memory bandwidth within 15 % of a sum in C.
"""

import argparse
import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from llmgw.base import log
from llmgw.base.clock import SystemClock
from llmgw.control.api.app import build
from llmgw.control.api.serve import serve
from llmgw.control.history import History
from llmgw.control.metrics.collector import gather, render
from llmgw.control.nodes import Arrival
from llmgw.control.plane import Plane
from llmgw.control.world import World
from llmgw.model.node import Register, Sample
from llmgw.pki.authority import Authority
from tests.bench import idle_agent, memory_bandwidth
from tests.bench.fullnode import CARDS, PORTS, full_heartbeat, full_inventory
from tests.fakes.memory_store import MemoryStore

GOALS = {"cpu_ms": 150.0, "longest_pause_ms": 20.0}
PARTS = ("scrape", "crowd", "history", "agent", "bandwidth")

Scrape = Callable[[], Awaitable[int]]

_SCRAPER = """
import http.client, sys
host, port, accepts = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for _ in sys.stdin:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": accepts})
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    print(len(answer.read()), flush=True)
"""
"""Scrapes once for each line that it reads, and says how many bytes that was."""


def measure_scrape(nodes: int = 300, scrapes: int = 10) -> dict[str, object]:
    """Return what a scrape costs a control plane with that many nodes of 8 GPUs.

    Of nodes with nothing but their GPUs, and of nodes with as many InfiniBand ports.
    """
    return {
        "goals": GOALS,
        "without_ports": uvloop.run(_measured(nodes, 0, scrapes)),
        "with_ports": uvloop.run(_measured(nodes, PORTS, scrapes)),
    }


async def _measured(nodes: int, ports: int, scrapes: int) -> dict[str, object]:
    plane = _plane()
    await plane.open()
    # As a control plane does when it is ready: a full collection looks at the fleet alone.
    gc.collect()
    gc.freeze()
    _fill(plane, nodes, ports)
    running = await serve(build(plane), "127.0.0.1", 0)
    try:
        found: dict[str, object] = {"nodes": nodes, "devices": nodes * CARDS, "ports": ports}
        for name, accepts in (("plain", "identity"), ("gzip", "gzip")):
            async with _scraper(str(running.host), int(running.port), accepts) as scrape:
                await scrape()
                found[name] = await _cost(scrape, scrapes) | await _turns(scrape, scrapes)
        return found | _beside(plane)
    finally:
        await running.stop()
        await plane.close()


def _plane() -> Plane:
    rng = random.Random(7)
    return Plane(
        store=MemoryStore(),
        authority=Authority.create("bench", time.time()),
        world=World(clock=SystemClock(), rng=rng, entropy=rng.randbytes),
        server_id="cp-1",
        version="0.1.0",
        addresses=lambda: ("127.0.0.1:7442",),
    )


def _fill(plane: Plane, nodes: int, ports: int) -> None:
    for number in range(nodes):
        name = f"gpu-{number:04d}"
        arrival = Arrival(session=number, peer=f"10.0.0.1:{number}", interval=3600.0)
        inventory = full_inventory(number, ports)
        plane.fleet.register(Register(node=name, boot="b", inventory=inventory), arrival)
        plane.fleet.heartbeat(name, number, full_heartbeat(number, ports))


@asynccontextmanager
async def _scraper(host: str, port: int, accepts: str) -> AsyncIterator[Scrape]:
    """Yield what scrapes once, from a process of its own, and returns the bytes of the answer."""
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SCRAPER, host, str(port), accepts),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert asking.stdin is not None
    assert asking.stdout is not None
    words, answers = asking.stdin, asking.stdout

    async def scrape() -> int:
        words.write(b"\n")
        return int(await answers.readline())

    try:
        yield scrape
    finally:
        words.close()
        await asking.wait()


async def _cost(scrape: Scrape, scrapes: int) -> dict[str, object]:
    """Return the processor time of a scrape: what the process used beyond waiting.

    The median, and the least: what it is where nothing else takes of the machine.
    """
    spent, size = [], 0
    for _ in range(scrapes):
        before = time.process_time()
        size = await scrape()
        spent.append(1000 * (time.process_time() - before))
    return {
        "bytes": size,
        "cpu_ms": round(statistics.median(spent), 1),
        "cpu_ms_least": round(min(spent), 1),
        "cpu_ms_most": round(max(spent), 1),
    }


async def _turns(scrape: Scrape, scrapes: int) -> dict[str, object]:
    """Return the longest time for which something that is always ready had no turn.

    On the wall clock, which counts what other processes took of the machine too, and in processor
    time of this thread alone.
    """
    walls, cpus = [0.0], [0.0]
    for _ in range(scrapes):
        asking = asyncio.ensure_future(scrape())
        wall, cpu = time.perf_counter(), time.thread_time()
        while not asking.done():
            await asyncio.sleep(0)
            now, used = time.perf_counter(), time.thread_time()
            walls.append(now - wall)
            cpus.append(used - cpu)
            wall, cpu = now, used
        await asking
    return {
        "longest_pause_ms": round(1000 * max(walls), 1),
        "longest_turn_cpu_ms": round(1000 * max(cpus), 1),
    }


_ASKER = """
import http.client, json, statistics, sys, threading, time
host, port, scrapers, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
until = time.monotonic() + seconds
refused, taken = [], []

def ask(path, headers):
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, 1000 * (time.perf_counter() - began)

def scrape():
    while time.monotonic() < until:
        status, spent = ask("/metrics", {"Accept-Encoding": "gzip"})
        (taken if status == 200 else refused).append(spent)
        if status != 200:
            time.sleep(0.05)

threads = [threading.Thread(target=scrape) for _ in range(scrapers)]
for one in threads:
    one.start()
alive = []
while time.monotonic() < until:
    alive.append(ask("/healthz", {})[1])
    time.sleep(0.02)
for one in threads:
    one.join()
print(json.dumps({
    "scrapers": scrapers,
    "healthz_median_ms": round(statistics.median(alive), 1),
    "healthz_most_ms": round(max(alive), 1),
    "scrapes": len(taken),
    "scrape_median_ms": round(statistics.median(taken), 1) if taken else None,
    "refused": len(refused),
}))
"""
"""Scrapes with many at once, each again and again, and asks meanwhile whether it is alive."""


def measure_crowd(nodes: int = 300) -> dict[str, object]:
    """Return how soon `/healthz` answers while one and while twenty scrape without a pause."""
    return {f"by_{count}": uvloop.run(_crowded(nodes, count)) for count in (0, 1, 20)}


async def _crowded(nodes: int, scrapers: int, seconds: float = 8.0) -> dict[str, object]:
    plane = _plane()
    await plane.open()
    gc.collect()
    gc.freeze()
    _fill(plane, nodes, 0)
    running = await serve(build(plane), "127.0.0.1", 0)
    try:
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _ASKER, str(running.host), str(running.port)),
            *(str(scrapers), str(seconds)),
            stdout=subprocess.PIPE,
        )
        told, _ = await asking.communicate()
        found: dict[str, object] = json.loads(told)
        return found
    finally:
        await running.stop()
        await plane.close()


def _beside(plane: Plane) -> dict[str, object]:
    """Return what the text costs at one go, beside prometheus_client's writer on the same."""
    snapshot = gather(plane)
    gathering = _median(lambda: gather(plane))
    ours = _median(lambda: render(snapshot))
    metrics = list(text_string_to_metric_families(render(snapshot).decode()))
    theirs = _median(lambda: generate_latest(_Fixed(metrics)))
    return {
        "samples": sum(len(metric.samples) for metric in metrics),
        "gather_ms": round(gathering, 1),
        "render_ms": round(ours, 1),
        "prometheus_client_ms": round(theirs, 1),
        "prometheus_client_ratio": round(theirs / ours, 1),
    }


class _Fixed(Collector):
    """Metrics that are made already: prometheus_client has only to write them."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _median(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the median processor milliseconds of a call."""
    spent = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        spent.append(1000 * (time.process_time() - before))
    return statistics.median(spent)


def measure_history() -> dict[str, object]:
    """Return the bytes that an hour of a node of 8 GPUs takes."""
    history = History()
    for tick in range(3):
        history.begin(tick, tick * 10.0)
        history.keep(Sample(id="gpu-0000", at=tick * 10.0, heartbeat=full_heartbeat(0, PORTS)))
        history.end()
    return {"bytes_per_node": history.bytes_per_node, "devices": CARDS}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--scrapes", type=int, default=10)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    log.setup("bench", level="warning")
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "scrape": lambda: measure_scrape(asked.nodes, asked.scrapes),
        "crowd": lambda: measure_crowd(asked.nodes),
        "history": measure_history,
        "agent": idle_agent.measure,
        "bandwidth": memory_bandwidth.measure,
    }
    found = {name: parts[name]() for name in asked.only.split(",")}
    if asked.json:
        print(json.dumps(found))
        return 0
    _show(found)
    return 0


def _show(figures: dict[str, Any], indent: str = "") -> None:
    for what, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{what}")
            _show(value, f"{indent}  ")
        else:
            print(f"{indent}{what:24} {value}")


if __name__ == "__main__":
    sys.exit(main())
