"""A simulated node: a machine and the agents that come and go on it.

The agent is the product's own, put together by its own composition root.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llmgw.base.log import LogRing
from llmgw.link.enrol import Own
from llmgw.link.identity import NODE, Identity
from llmgw.link.tls import files_in
from llmgw.local.sim.disk import Disk
from llmgw.local.sim.http import FileServer, SimHttp
from llmgw.local.sim.loop import Life, SimLoop
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.network import Network
from llmgw_agent.assembly import Agent, Surroundings, assemble
from llmgw_agent.config import AgentConfig
from llmgw_agent.host import tree
from llmgw_agent.host.machine import Machine as Platform
from llmgw_agent.host.world import World
from llmgw_agent.probe.facts import ProbedSource
from llmgw_agent.probe.further import Means
from llmgw_agent.probe.ports import PortsProbe
from llmgw_agent.remembered import Remembered
from llmgw_agent.sources import Directories
from tests.sim.sides import Helpers

CLUSTER = "sim"
STATE = Path("/var/lib/llmgw/agent")
MEMORY_KIB = 256 << 20
CPUS = 32

_PLATFORM = Platform(architecture="x86_64", glibc="2.36")
_FOREVER = 1e12


_ON_ONE_NETWORK = 4
_OF = 10


def wires(number: int) -> dict[str, str]:
    """Return what the kernel tells of a node's RoCE port: of ten nodes two have none.

    Four of ten are on one network and four on another.
    """
    which, place = number % _OF // _ON_ONE_NETWORK, number // _OF * _OF + number % _OF
    if which > 1:
        return {}
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    high, low = 10 << 8 | which, (place // 250) << 8 | place % 250 + 1
    return {
        "/sys/class/infiniband/mlx5_0/node_guid": f"b8ce:f603:0000:{place:04x}\n",
        f"{port}/state": "4: ACTIVE\n",
        f"{port}/phys_state": "5: LinkUp\n",
        f"{port}/rate": "400 Gb/sec (4X NDR)\n",
        f"{port}/link_layer": "Ethernet\n",
        f"{port}/gids/0": f"0000:0000:0000:0000:0000:ffff:{high:04x}:{low:04x}\n",
        f"{port}/gid_attrs/types/0": "RoCE v2\n",
        f"{port}/gid_attrs/ndevs/0": "eth1\n",
        "/proc/net/route": (
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
            f"eth1\t0000{which:02X}0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
        ),
    }


def _ports(means: Means) -> tuple[ProbedSource, ...]:
    new = partial(means.new_helper, tree.HELPER)
    return (PortsProbe(means.files, means.processes, new, means.clock),)


@dataclass
class Place:
    """What every node of a simulation shares. `weights`: below it lie their weights."""

    loop: SimLoop
    network: Network
    control_planes: tuple[str, ...]
    servers: Mapping[str, FileServer]
    weights: Path


class SimNode:
    """A machine of the cluster."""

    def __init__(self, place: Place, number: int, cards: int, seed: str) -> None:
        self.number = number
        self.name = f"node-{number:03}"
        self.rng = random.Random(f"{seed}/{self.name}")
        host = f"127.1.{number // 250}.{number % 250 + 1}"
        self.machine = Machine(place.loop, self.name, host, Disk(total=64 << 20))
        self.cards = cards
        self.life: Life | None = None
        self.agent: Agent | None = None
        self.starts = 0
        self.ill: set[str] = set()
        """Models that die on it while they load."""
        self.weights = place.weights / self.name
        self.weights.mkdir()
        self._place = place
        self.http = SimHttp(self.machine, place.servers, self.rng)
        self.helpers = Helpers(place.loop, self.machine, cards, self.http)
        self.boot()

    def boot(self) -> None:
        """Begin as a machine that was just switched on."""
        self.machine.boot()
        put = self.machine.disk.put
        boot_id = f"{self.name}-boot-{self.machine.boots}\n"
        put(Path("/proc/sys/kernel/random/boot_id"), boot_id.encode())
        put(Path("/proc/sys/kernel/hostname"), f"{self.name}\n".encode())
        put(Path("/proc/sys/kernel/osrelease"), b"6.1.0-18-amd64\n")
        memory = f"MemTotal: {MEMORY_KIB} kB\nMemAvailable: {MEMORY_KIB} kB\n"
        put(Path("/proc/meminfo"), memory.encode())
        put(Path("/proc/loadavg"), b"0.00 0.00 0.00 1/100 1\n")
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        lines += [f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(CPUS)]
        put(Path("/proc/stat"), "\n".join(lines).encode() + b"\n")
        for path, text in wires(self.number).items():
            put(Path(path), text.encode())

    @property
    def network(self) -> int | None:
        """Return which network it is on; None: it has no port."""
        return self.number % _OF // _ON_ONE_NETWORK if wires(self.number) else None

    @property
    def frozen(self) -> bool:
        """Say whether its agent is frozen."""
        return self.life is not None and self.life.frozen

    @property
    def fetching(self) -> bool:
        """Say whether weights are on their way to it."""
        return any(self.weights.glob("*.partial"))

    @property
    def away(self) -> bool:
        """Say whether it reaches no control plane."""
        return any(client == self.machine.host for client, _ in self._place.network.unreachable)

    def start(self) -> None:
        """Start an agent."""
        assert self.life is None, "its agent runs"
        self.starts += 1
        self.life = Life(f"agent of {self.name}", self.machine.host)
        self._main = self._place.loop.live(self.life, self._run(self.life))

    def kill(self) -> None:
        """End the agent as SIGKILL does; engines go on."""
        if self.life is not None:
            self._place.loop.kill(self.life)
            self._place.network.end(self.life)
            self.helpers.end()
            self.life = self.agent = None

    def stop(self) -> None:
        """Ask the agent to end, as SIGTERM does."""
        if self.agent is not None:
            self.agent.stop()

    async def _run(self, life: Life) -> None:
        self.agent = assemble(self._surroundings())
        try:
            await self.agent.run()
        finally:
            if self.life is life:
                self.life = self.agent = None

    def _surroundings(self) -> Surroundings:
        place, machine = self._place, self.machine
        identity = Identity(
            cluster=CLUSTER, role=NODE, id=self.name, serial="", ends=machine.clock.now() + _FOREVER
        )
        return Surroundings(
            config=AgentConfig(
                control_planes=place.control_planes,
                address=machine.host,
                node=self.name,
                allow_http=True,
                labels={"rack": f"r{len(self.name) % 2}"},
            ),
            directories=Directories(
                state=STATE, weights=self.weights, engines=Path("/var/lib/llmgw/engines")
            ),
            own=Own(files_in(STATE), identity, machine.clock.now()),
            remembered=Remembered(STATE / "cluster.json", CLUSTER, machine.disk),
            address=machine.host,
            ring=LogRing(),
            world=World(
                processes=machine,
                files=machine.disk,
                http=self.http,
                clock=machine.clock,
                rng=random.Random(f"{self.rng.random()}"),
                boot=f"{self.name}-{self.starts}",
                machine=_PLATFORM,
                new_helper=self.helpers.new,
                port_free=lambda _host, port: machine.port_free(port),
            ),
            environ={"PATH": "/usr/bin"},
            plaintext=True,
            further=_ports if wires(self.number) else lambda _: (),
        )
