"""What agents cost a control plane: processor a heartbeat, memory an agent, seconds to come back.

    python -m tests.bench.fleet [--agents 50,200,500] [--seconds 20] [--json]

Real processes on this machine, over mTLS, with the default settings. Milliseconds are this
machine's and its load's; bytes are not.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from llmgw.local import interrupts
from llmgw.local.cluster import Layout, LocalCluster, kill
from tests.crowd import StartedCrowd
from tests.spent import spent
from tests.waiting import wait_for

LIMIT = 300.0


def measure(count: int, seconds: float) -> dict[str, float]:
    """Return the costs of that many agents."""
    with tempfile.TemporaryDirectory(prefix="llmgw-bench-") as place:
        directory = Path(place) / "cluster"
        layout = Layout(directory=str(directory), weights=place, engines=place)
        cluster = LocalCluster(layout, os.environ)
        try:
            return _measure(cluster, count, seconds)
        finally:
            cluster.end()


def _measure(cluster: LocalCluster, count: int, seconds: float) -> dict[str, float]:
    cluster.start_server()
    alone = spent(cluster.owner.services["server"].pid)
    assert alone is not None
    crowd = StartedCrowd(cluster, count, tokens=False)
    crowd.wait_ready(LIMIT)
    ready = time.monotonic() - crowd.began
    _pass(seconds / 2)
    beats, (server, agents) = heartbeats(cluster), crowd.spent()
    _pass(seconds)
    beats, (server_then, agents_then) = heartbeats(cluster) - beats, crowd.spent()
    kill(crowd.server)
    began = time.monotonic()
    cluster.start_server()
    crowd.wait_ready(LIMIT)
    return {
        "agents": count,
        "ready_s": ready,
        "ready_again_s": time.monotonic() - began,
        "server_ms_a_heartbeat": 1000 * (server_then.cpu_seconds - server.cpu_seconds) / beats,
        "server_kb_an_agent": (server_then.rss_bytes - alone.rss_bytes) / count / 1000,
        "server_mb": server_then.rss_bytes / 1e6,
        "agent_ms_a_heartbeat": 1000 * (agents_then.cpu_seconds - agents.cpu_seconds) / beats,
        "agents_mb": agents_then.rss_bytes / 1e6,
    }


def heartbeats(cluster: LocalCluster) -> int:
    """Return how many heartbeats the control plane has heard, by their own numbers."""
    samples = cluster.client().get("/list", {"topics": "samples"})["topics"]["samples"]
    return sum(sample["heartbeat"]["sequence"] for sample in samples)


def _pass(seconds: float) -> None:
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= end, 2 * seconds + 1)


def main() -> int:
    """Measure each size and print a line."""
    parser = argparse.ArgumentParser(description="what agents cost a control plane")
    parser.add_argument("--agents", default="50,200,500", help="how many, one run each")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured at rest")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a run")
    asked = parser.parse_args()
    interrupts.as_exceptions()
    for count in map(int, asked.agents.split(",")):
        found = measure(count, asked.seconds)
        if asked.json:
            print(json.dumps(found), flush=True)
            continue
        print(", ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except interrupts.Interrupted as interrupted:
        sys.exit(interrupted.exit_code)
