"""A cluster of real processes for people and kill tests: `python -m tests.cluster --agents 3`.

Prints the context and the pids as JSON, serves until interrupted, and ends everything it started.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from llmgw.base.places import Places
from llmgw.local import demo_model, interrupts
from llmgw.local.cluster import Layout, LocalCluster

FAST = {"link.heartbeat_interval": 1.0, "link.lost_after": 6.0, "reconcile.settling": 6.0}
"""Settings for tests that wait for a node to be lost."""


def main() -> int:
    """Start, print, wait for a signal, end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--engine", choices=("simulated", "llama"), default="simulated")
    parser.add_argument("--dir", type=Path, help="kept afterwards; else a temporary one")
    parser.add_argument("--fast", action="store_true", help="1 s heartbeats, lost after 6 s")
    asked = parser.parse_args()
    directory = asked.dir or Path(tempfile.mkdtemp(prefix="llmgw-cluster-"))
    places = Places.find("agent", environ=os.environ, root=False)
    cluster = LocalCluster(
        Layout(
            directory=str(directory.absolute()),
            weights=str(places.weights),
            engines=str(places.engines),
            settings=dict(FAST) if asked.fast else {},
        ),
        os.environ,
    )
    if asked.dir is None:
        cluster.owner.remove_at_end(directory)
    interrupts.as_exceptions()
    try:
        cluster.start(asked.agents)
        model = (
            demo_model.real(replicas=asked.agents)
            if asked.engine == "llama"
            else demo_model.simulated(replicas=asked.agents)
        )
        cluster.put_model(model)
        print(json.dumps(_told(cluster, model.name), indent=2), flush=True)
        signal.pause()
    except interrupts.Interrupted as interrupted:
        return interrupted.exit_code
    finally:
        cluster.end()
    return 0


def _told(cluster: LocalCluster, model: str) -> dict[str, object]:
    return {
        "directory": str(cluster.directory),
        "environment": {
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN_FILE": str(cluster.token_file),
        },
        "gateway": cluster.gateway_url,
        "key": cluster.make_key("tests").reveal(),
        "model": model,
        "pids": {name: service.pid for name, service in cluster.owner.services.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
