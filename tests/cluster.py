"""A cluster of real processes for people and kill tests: `python -m tests.cluster --agents 3`.

Prints the context and the pids as JSON, serves until interrupted, and ends everything it started.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from llmgw.base.places import Places
from llmgw.local import demo_model, interrupts
from llmgw.local.cluster import Layout, LocalCluster
from llmgw.local.processes import Owned
from tests.fakes.recorded_machine import RecordedMachine

FAST = {"link.heartbeat_interval": 1.0, "link.lost_after": 6.0, "reconcile.settling": 6.0}
"""Settings for tests that wait for a node to be lost."""


class ClusterOfMachines(LocalCluster):
    """A cluster some of whose agents run on recorded machines."""

    def __init__(self, layout: Layout, environ: Mapping[str, str]) -> None:
        super().__init__(layout, environ)
        self.machines: dict[str, RecordedMachine] = {}
        """By node; put there before the agent starts."""

    def start_machine(
        self,
        node: str,
        machine: RecordedMachine,
        *,
        environ: Mapping[str, str] | None = None,
        **more: object,
    ) -> Owned:
        """Start an agent on a recorded machine, with what runs there beside it."""
        self.machines[node] = machine
        self.owner.start(f"{node}-imex", machine.imex)
        self.owner.start(f"{node}-meter", machine.meter)
        path = f"{machine.path}:{self.owner.environ['PATH']}"
        return self.start_agent(node, environ={**(environ or {}), "PATH": path}, **more)

    def _argv(self, service: str, config: Path) -> list[str]:
        argv = super()._argv(service, config)
        machine = self.machines.get(config.stem)
        return argv if machine is None else machine.argv(argv)


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
