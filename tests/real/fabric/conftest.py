"""A node with two adapters, each on a fabric of its own, and the agent's probes on it."""

import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles
from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host import tree
from llmgw_agent.host.helper import HelperProcess
from llmgw_agent.probe.ports import PortsProbe
from llmgw_agent.probe.subnet_managers import SubnetManagersProbe
from tests.agents import python_path
from tests.real.fabric.simulation import Fabric, NodeProcesses, simulated, why_not

NODE = "node0"
FIRST, SECOND = "manager-1", "manager-2"
GUIDS_A, GUIDS_B = 0xB8CEF60300100000, 0xB8CEF60300200000


@dataclass(frozen=True)
class Rails:
    """Two fabrics: hosts 0, 1 and 2 of each are the node, and two that managers may run on."""

    a: Fabric
    b: Fabric


@dataclass(frozen=True)
class NodeOnFabrics:
    """The two probes of a node."""

    ports: PortsProbe
    managers: SubnetManagersProbe

    async def look(self) -> str:
        """Read both once; return what the second says."""
        await self.ports.read()
        return await self.managers.read()

    def told(self) -> dict[str, Port]:
        """Return the ports of a heartbeat by adapter."""
        heartbeat = self.managers.onto_heartbeat(self.ports.onto_heartbeat(Heartbeat(sequence=1)))
        return {port.adapter: port for port in heartbeat.ports or ()}

    def has(self) -> Inventory:
        return self.managers.onto_inventory(self.ports.onto_inventory(Inventory()))


Probes = Callable[..., AbstractAsyncContextManager[NodeOnFabrics]]


@pytest.fixture
def rails(tmp_path: Path) -> Iterator[Rails]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    hosts = (NODE, FIRST, SECOND)
    with (
        simulated(tmp_path / "a", hosts, GUIDS_A) as a,
        simulated(tmp_path / "b", hosts, GUIDS_B) as b,
    ):
        yield Rails(a, b)


@pytest.fixture
def probes(rails: Rails, tmp_path: Path) -> Probes:
    """Return what gives the node its probes; its sysfs shows its links as they are then."""
    adapters = {"mlx5_0": (rails.a, NODE), "mlx5_1": (rails.b, NODE)}
    processes, clock = NodeProcesses(adapters), SystemClock()
    numbers = itertools.count()

    @asynccontextmanager
    async def probing(*, sysfs: bool = True) -> AsyncIterator[NodeOnFabrics]:
        root = tmp_path / f"class-{next(numbers)}"
        with ExitStack() as stack:
            if sysfs:
                root.mkdir()
                for adapter, (fabric, host) in adapters.items():
                    (root / adapter).symlink_to(stack.enter_context(fabric.sysfs(host)))
            ports = PortsProbe(SystemFiles(), processes, new_helper, clock, root=root)
            yield NodeOnFabrics(ports, SubnetManagersProbe(processes, ports, clock))
            await ports.close()

    return probing


def new_helper() -> HelperProcess:
    environ = {**os.environ, "PYTHONPATH": python_path()}
    return HelperProcess((sys.executable, "-m", tree.HELPER), environ=environ)
