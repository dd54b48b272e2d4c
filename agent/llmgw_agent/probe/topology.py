"""Where cards sit: NVLink peers, NUMA node, distance of each network adapter."""

from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.units import counted
from llmgw.model.device import Device, NicDistance
from llmgw.model.node import Inventory
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.nvidia_smi_topo import TopoAdapter, TopoGpu, Topology, read_topology
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.smi import SELDOM, TIMEOUT, NvidiaSmi
from llmgw_agent.probe.source import Source

_RARELY: Final = 600.0
_FIRST_INSTANCE: Final = 1000
_PER_CARD: Final = 100


class TopologyProbe(Source):
    """The matrix of `nvidia-smi topo -m`, at start and every ten minutes.

    It does not change while a machine runs, so that the last reading counts however old it is.
    """

    name = "topology"
    timeout = TIMEOUT + 5.0

    def __init__(self, smi: NvidiaSmi, clock: Clock) -> None:
        self._smi = smi
        self._topology: Kept[Topology] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings; soon again until there is one."""
        return SELDOM if self._topology.last is None else _RARELY

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self._topology.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add to each device where it sits."""
        topology = self._topology.last
        return inventory if topology is None else with_topology(inventory, topology)

    async def read(self) -> str:
        """Read the matrix."""
        try:
            text = await self._smi.ask("topo", "-m")
        except NotFound:
            if self.age is not None:
                raise
            return "nvidia-smi is not on this machine"
        if text is None:
            return "no NVIDIA cards"
        topology = await apart(read_topology, text)
        if not _is_whole(text, topology):
            raise Unreadable(f"nvidia-smi topo -m: the matrix is cut: {text[-80:]!r}")
        self._topology.put(topology)
        return (
            f"{counted(len(topology.gpus), 'card')}, "
            f"{counted(len(topology.nics), 'network adapter')}"
        )


def _is_whole(text: str, topology: Topology) -> bool:
    others = len(topology.gpus) - 1
    return text.endswith("\n") and all(len(gpu.peers) == others for gpu in topology.gpus)


def with_topology(inventory: Inventory, topology: Topology) -> Inventory:
    """Return the inventory with where each device sits; what is known already stays.

    An instance sits where its card does, but has no peers: NVLink joins whole cards.
    """
    if inventory.devices is None:
        return inventory
    places = {gpu.number: gpu for gpu in topology.gpus}
    uuids = {
        device.number: device.uuid
        for device in inventory.devices
        if device.number is not None and device.card_uuid is None
    }
    return msgspec.structs.replace(
        inventory,
        devices=tuple(
            device if (gpu := places.get(_card(device))) is None else _placed(device, gpu, uuids)
            for device in inventory.devices
        ),
    )


def _card(device: Device) -> int:
    """Return the number of a device's card; -1 when it is not known."""
    number = -1 if device.number is None else device.number
    return number if device.card_uuid is None else (number - _FIRST_INSTANCE) // _PER_CARD


def _placed(device: Device, gpu: TopoGpu, uuids: dict[int, str]) -> Device:
    peers = device.nvlink_peers
    if peers is None and device.card_uuid is None:
        joined = (uuids.get(peer.number) for peer in gpu.peers if peer.nvlinks)
        peers = tuple(uuid for uuid in joined if uuid is not None)
    return msgspec.structs.replace(
        device,
        nvlink_peers=peers,
        numa_node=gpu.numa_node if device.numa_node is None else device.numa_node,
        adapters=_distances(gpu.adapters) if device.adapters is None else device.adapters,
    )


def _distances(adapters: tuple[TopoAdapter, ...]) -> tuple[NicDistance, ...] | None:
    """Return the distances; None when there are adapters whose names are not known."""
    if any(adapter.name is None for adapter in adapters):
        return None
    return tuple(
        NicDistance(adapter=adapter.name or "", distance=adapter.distance) for adapter in adapters
    )
