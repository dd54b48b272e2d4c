"""NVIDIA cards and who is on them: through NVML where its library is, else nvidia-smi."""

from collections.abc import Callable
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.units import show_bytes
from llmgw.base.world import Done, Processes
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw.model.record import Record
from llmgw_agent.host.helper import Helper
from llmgw_agent.parse import nvidia_smi
from llmgw_agent.parse.cards import Card, CardsSeen, devices, samples, since
from llmgw_agent.probe.kept import OLDEST, Kept
from llmgw_agent.probe.source import Source

SILENT: Final = "the NVIDIA driver does not answer"

_SILENCE = 20.0
_SMI_TIMEOUT = 20.0
_WITH_CARDS = 5.0
_WITHOUT_CARDS = 60.0


class ReadCards(Record, frozen=True, kw_only=True):
    """The one request of the NVML helper."""


class CardsProbe(Source):
    """The cards, their readings and the processes on them.

    Args:
        helper: asks NVML (`probe.nvml_side`).
        processes: runs nvidia-smi, and tells which group a process is of.
        own_groups: returns the process groups of this agent's own engines.
        clock: the time.
    """

    name = "gpus"
    timeout = 60.0

    def __init__(
        self,
        helper: Helper,
        processes: Processes,
        own_groups: Callable[[], frozenset[int]],
        clock: Clock,
    ) -> None:
        self._helper = helper
        self._processes = processes
        self._own_groups = own_groups
        self._library = True
        self._fields: tuple[str, ...] = (*nvidia_smi.CARD_FIELDS, *nvidia_smi.NEWER_FIELDS)
        self._own: frozenset[int] = frozenset()
        self.seen: Kept[CardsSeen] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings: a machine without cards is asked seldom."""
        last = self.seen.last
        return _WITH_CARDS if last is None or last.cards else _WITHOUT_CARDS

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.seen.age

    @property
    def devices(self) -> tuple[Device, ...] | None:
        """Return what placement is told; None before the first reading.

        Cards of a driver that fell silent stay, as unhealthy: nothing may be placed on them.
        """
        last = self.seen.last
        if last is None:
            return None
        if self.seen.fresh is None:
            last = since(last.cards, CardsSeen(warning=SILENT))
        return devices(last.cards)

    @property
    def samples(self) -> tuple[DeviceSample, ...] | None:
        """Return the readings with their age; None when there are none or they are too old."""
        seen = self.seen.fresh
        return None if seen is None else samples(seen.cards, self._own, self.seen.age)

    @property
    def warnings(self) -> tuple[NodeWarning, ...]:
        """Return what a person should know about the driver."""
        last = self.seen.last
        words = [] if last is None or last.warning is None else [last.warning]
        if self.seen.age is not None and self.seen.age > OLDEST and last is not None and last.cards:
            words.append(SILENT)
        return tuple(NodeWarning(subject="gpu", words=text) for text in words)

    def holders(self, uuids: tuple[str, ...]) -> str | None:
        """Return in words who else has memory on these cards; None when nobody is known to."""
        words = [
            f"{process.command or 'a process'} (pid {process.pid}) holds "
            f"{show_bytes(process.memory_bytes)}"
            for sample in self.samples or ()
            if sample.uuid in uuids
            for process in sample.foreign or ()
        ]
        return ", ".join(words) or None

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the devices, the driver's version and its warnings."""
        seen, host = self.seen.last, inventory.host
        if host is not None and seen is not None:
            host = msgspec.structs.replace(host, nvidia_driver=seen.driver, cuda_version=seen.cuda)
        warnings = (*(inventory.warnings or ()), *self.warnings)
        return msgspec.structs.replace(
            inventory, host=host, devices=self.devices, warnings=warnings
        )

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the cards' readings."""
        return msgspec.structs.replace(heartbeat, devices=self.samples)

    async def read(self) -> str:
        """Read all cards."""
        seen = await self._through_library()
        if seen is None:
            seen = await self._through_tool()
        before = self.seen.last
        if before is not None:
            seen = since(before.cards, seen)
        self._own = self._own_pids(seen.cards)
        self.seen.put(seen)
        return _sentence(seen)

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()

    async def _through_library(self) -> CardsSeen | None:
        """Return NVML's reading; None when the library is not there."""
        if not self._library:
            return None
        try:
            return await self._helper.ask(ReadCards(), CardsSeen, silence=_SILENCE)
        except NotFound:
            # Once is enough: a driver that is installed later comes with nvidia-smi as well.
            self._library = False
            await self._helper.close()
            return None

    async def _through_tool(self) -> CardsSeen:
        try:
            seen = await self._query_cards()
        except NotFound:
            return CardsSeen()
        if not seen.cards or all(card.uuid is None for card in seen.cards):
            return seen
        try:
            done = await self._run(f"--query-compute-apps={','.join(nvidia_smi.APP_FIELDS)}")
        except LlmgwError:
            return seen
        return nvidia_smi.with_processes(seen, nvidia_smi.read_processes(done.out))

    async def _query_cards(self) -> CardsSeen:
        """Ask with every field; leave out what an older driver refuses."""
        while True:
            done = await self._run(f"--query-gpu={','.join(self._fields)}")
            refused = nvidia_smi.unknown_field(f"{done.out}\n{done.err}")
            if refused in self._fields:
                self._fields = tuple(field for field in self._fields if field != refused)
                continue
            if done.rc != 0 and not done.out.startswith("index"):
                return nvidia_smi.read_failure(f"{done.out}\n{done.err}", done.rc)
            return nvidia_smi.read_cards(done.out, self._fields)

    async def _run(self, query: str) -> Done:
        argv = ["nvidia-smi", query, "--format=csv,nounits"]
        return await self._processes.run(argv, timeout=_SMI_TIMEOUT)

    def _own_pids(self, cards: tuple[Card, ...]) -> frozenset[int]:
        groups = self._own_groups()
        pids = {process.pid for card in cards for process in card.processes or ()}
        found = ((pid, self._processes.look(pid)) for pid in pids) if groups else ()
        return frozenset(pid for pid, seen in found if seen is not None and seen.group in groups)


def _sentence(seen: CardsSeen) -> str:
    if not seen.cards:
        return seen.warning or "no NVIDIA cards"
    broken = sum(1 for card in seen.cards if card.trouble is not None)
    named = f"{len(seen.cards)} NVIDIA cards"
    return f"{named}, {broken} of them broken" if broken else named
