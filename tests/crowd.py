"""A local cluster's crowd: `tests.many_agents` as one of its processes."""

import sys
import time
from pathlib import Path

import msgspec

from llmgw.local.cluster import LocalCluster
from llmgw.local.processes import Owned
from tests.agents import python_path
from tests.fakes.recorded_fleet import fleet
from tests.many_agents import Told
from tests.spent import Spent, spent

NAME = "agents"
READY_WITHIN = 60.0


class StartedCrowd:
    """So many agents in one process of a cluster.

    Args:
        cluster: its control plane runs; it ends the process with the others.
        count: how many.
        tokens: every agent joins with a one-time token; otherwise the CA's files are used.
    """

    def __init__(self, cluster: LocalCluster, count: int, *, tokens: bool = True) -> None:
        self.cluster = cluster
        self.count = count
        self._out = cluster.directory / "agents.out"
        argv = [sys.executable, "-m", "tests.many_agents", "--count", str(count)]
        argv += ["--link", str(cluster.link), "--dir", str(cluster.directory / NAME)]
        argv += ["--print", "json", "--server-pid", str(self.server.pid)]
        if tokens:
            argv += ["--tokens", str(self._write_tokens())]
        else:
            argv += ["--server-state", str(cluster.server_state)]
        self.began = time.monotonic()
        with self._out.open("wb") as out:
            self.process = cluster.owner.start(
                NAME, argv, stdout=out, environ={"PYTHONPATH": python_path()}
            )

    @property
    def server(self) -> Owned:
        """Return the control plane."""
        return self.cluster.owner.services["server"]

    @property
    def nodes(self) -> set[str]:
        """Return the ids of all its nodes."""
        return {one.node for one in fleet(self.count)}

    def wait_ready(self, timeout: float = READY_WITHIN) -> float:
        """Wait until the control plane shows every agent's node as ready; return the seconds."""
        began = time.monotonic()
        what = f"{self.count} ready nodes"
        self.cluster.wait(self._all_ready, timeout, what, self.process)
        return time.monotonic() - began

    def told(self) -> Told:
        """Return the last line that the process printed."""
        text = self._out.read_bytes()
        return msgspec.json.decode(text[: text.rindex(b"\n")].split(b"\n")[-1], type=Told)

    def spent(self) -> tuple[Spent, Spent]:
        """Return what the control plane and the agents have used."""
        server, agents = spent(self.server.pid), spent(self.process.pid)
        assert server is not None
        assert agents is not None
        return server, agents

    def _all_ready(self) -> bool:
        nodes = self.cluster.client().get("/nodes")
        ready = {n["id"] for n in nodes if n["liveness"] == "ready" and n["connected"]}
        return ready == self.nodes

    def _write_tokens(self) -> Path:
        client = self.cluster.client()
        path = self.cluster.directory / "tokens"
        path.touch(mode=0o600)
        with path.open("w") as out:
            for node in sorted(self.nodes):
                answer = client.post("/join-tokens", {"role": "node", "subject": node})
                out.write(f"{node} {answer['token']}\n")
        return path
