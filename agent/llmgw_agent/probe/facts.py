"""Everything that the probes know, as the link's records."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from llmgw.model.node import Heartbeat, Host, Inventory, NodeWarning, ProbeState
from llmgw_agent.probe.cards import CardsProbe
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.host import HostProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.probing import Probing
from llmgw_agent.probe.shards import ShardsProbe


class Facts(Protocol):
    """What this machine is and how it is; asking waits for nothing."""

    def inventory(self) -> Inventory:
        """Return what the node has. Engines and weights are others' to tell."""
        ...

    def heartbeat(self, sequence: int, sent: float) -> Heartbeat:
        """Return what changes, without weights. What is not known now is None."""
        ...

    async def first_look(self) -> None:
        """Return when every source was asked once."""
        ...

    async def run(self) -> None:
        """Keep looking until cancelled."""
        ...


class ProbedFacts:
    """Facts from this machine's own probes.

    Args:
        host, memory, cpu, disks, cards, shards: one probe a source.
        probings: what runs each of them.
        warnings: what else a person should know, found at start.
    """

    def __init__(
        self,
        *,
        host: HostProbe,
        memory: MemoryProbe,
        cpu: CpuProbe,
        disks: DisksProbe,
        cards: CardsProbe,
        shards: ShardsProbe,
        probings: Sequence[Probing],
        warnings: Sequence[NodeWarning] = (),
    ) -> None:
        self._host = host
        self._memory = memory
        self._cpu = cpu
        self._disks = disks
        self._cards = cards
        self._shards = shards
        self._probings = tuple(probings)
        self._warnings = tuple(warnings)

    def inventory(self) -> Inventory:
        """Return what the node has."""
        disks = self._disks.filesystems.last
        return Inventory(
            host=self._whole_host(),
            devices=self._cards.devices,
            filesystems=disks,
            warnings=(*self._warnings, *self._host.warnings, *self._cards.warnings),
        )

    def heartbeat(self, sequence: int, sent: float) -> Heartbeat:
        """Return what changes, without weights."""
        memory, cpu = self._memory.memory.fresh, self._cpu.use.fresh
        return Heartbeat(
            sequence=sequence,
            sent=sent,
            cpus=None if cpu is None else cpu.cpus,
            memory_bytes=None if memory is None else memory.total_bytes,
            memory_available_bytes=None if memory is None else memory.available_bytes,
            cpu_percent=None if cpu is None else cpu.busy_percent,
            load_average=None if cpu is None else cpu.load,
            devices=self._cards.samples,
            filesystems=self._disks.filesystems.fresh,
            shards=self._shards.use.fresh,
            probes=self._states(),
        )

    async def first_look(self) -> None:
        """Ask every source once, all at the same time."""
        async with asyncio.TaskGroup() as group:
            for probing in self._probings:
                group.create_task(probing.run_once())

    async def run(self) -> None:
        """Probe until cancelled, then end the helpers."""
        try:
            async with asyncio.TaskGroup() as group:
                for probing in self._probings:
                    group.create_task(probing.run())
        finally:
            await self._disks.close()
            await self._cards.close()

    def _states(self) -> tuple[ProbeState, ...]:
        return tuple(probing.state() for probing in self._probings)

    def _whole_host(self) -> Host | None:
        """Return the machine with what other probes know of it; None before the first reading."""
        host = self._host.host.last
        if host is None:
            return None
        memory, cpu, cards = self._memory.memory.last, self._cpu.use.last, self._cards.seen.last
        return msgspec.structs.replace(
            host,
            cpus=None if cpu is None else cpu.cpus,
            memory_bytes=None if memory is None else memory.total_bytes,
            nvidia_driver=None if cards is None else cards.driver,
            cuda_version=None if cards is None else cards.cuda,
        )
