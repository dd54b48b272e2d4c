"""Everything that the probes know, as the link's records."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from llmgw.base.clock import Clock
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.probe.probing import Probe, Probing


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


class ProbedSource(Probe, Protocol):
    """A probe that tells what it read; see `probe.source.Source`."""

    late: bool
    """It is not asked before the first register: what it does takes time or cores."""

    @property
    def outdated(self) -> bool:
        """Say whether it learnt from others what makes its last reading another one."""
        ...

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Return the inventory with what this source knows."""
        ...

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Return the heartbeat with what this source read."""
        ...

    async def close(self) -> None:
        """End what it keeps running."""
        ...


class ProbedFacts:
    """Facts from this machine's own probes.

    Args:
        sources: in the order in which they are asked; a later one may refine what an earlier said.
        clock: the time.
        warnings: what else a person should know, found at start.
    """

    def __init__(
        self,
        sources: Sequence[ProbedSource],
        clock: Clock,
        warnings: Sequence[NodeWarning] = (),
    ) -> None:
        self._sources = tuple(sources)
        self._probings = tuple(Probing(source, clock) for source in sources)
        self._warnings = tuple(warnings)

    def inventory(self) -> Inventory:
        """Return what the node has."""
        inventory = Inventory(warnings=self._warnings)
        for source in self._sources:
            inventory = source.onto_inventory(inventory)
        self._wake()
        return inventory

    def heartbeat(self, sequence: int, sent: float) -> Heartbeat:
        """Return what changes, without weights."""
        heartbeat = Heartbeat(sequence=sequence, sent=sent)
        for source in self._sources:
            heartbeat = source.onto_heartbeat(heartbeat)
        self._wake()
        return msgspec.structs.replace(
            heartbeat, probes=tuple(probing.state() for probing in self._probings)
        )

    def _wake(self) -> None:
        for source, probing in zip(self._sources, self._probings, strict=True):
            if source.outdated:
                probing.wake()

    def unanswered(self) -> frozenset[str]:
        """Return the names of the sources that were asked and have not answered at all."""
        return frozenset(one.state().name for one in self._probings if not one.finished)

    def sentences(self) -> dict[str, str]:
        """Return what each source said of its last reading, by its name."""
        said = ((one.state().name, one.sentence) for one in self._probings)
        return {name: sentence for name, sentence in said if sentence is not None}

    async def first_look(self) -> None:
        """Ask every source once that is not late, all at the same time."""
        await self.look(late=False)

    async def look(self, *, late: bool) -> None:
        """Ask every source once, all at the same time; with or without those that are late.

        Those that learn from the answers of others what there is to be asked are asked again.
        """
        pairs = tuple(zip(self._sources, self._probings, strict=True))
        await _ask(probing for source, probing in pairs if late or not source.late)
        self.inventory()
        await _ask(probing for source, probing in pairs if source.outdated)

    async def run(self) -> None:
        """Probe until cancelled, then end what the sources keep running."""
        try:
            async with asyncio.TaskGroup() as group:
                for probing in self._probings:
                    group.create_task(probing.run())
        finally:
            await self.close()

    async def close(self) -> None:
        """End readings that go on, and what the sources keep running."""
        await asyncio.gather(*(probing.close() for probing in self._probings))
        for source in self._sources:
            await source.close()


async def _ask(probings: Iterable[Probing]) -> None:
    async with asyncio.TaskGroup() as group:
        for probing in probings:
            group.create_task(probing.run_once())
