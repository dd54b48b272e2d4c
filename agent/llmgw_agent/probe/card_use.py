"""Who holds the memory of NVIDIA cards, and how much: what placement looks at, so asked often."""

from collections.abc import Callable

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.units import counted, show_bytes
from llmgw.base.world import Processes
from llmgw.model.device import DeviceSample
from llmgw.model.node import Heartbeat
from llmgw_agent.parse.card_devices import samples
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.probe.card_reader import LONGEST, CardReader
from llmgw_agent.probe.card_request import USE
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

_WITH_CARDS = 5.0
_WITHOUT_CARDS = 60.0
_TOLD = ("memory_used_bytes", "memory_total_bytes", "foreign")


class CardUseProbe(Source):
    """Memory of cards and instances, and the processes on them that are not this agent's engines.

    Args:
        reader: asks for them.
        processes: tells which group a process is of.
        own_groups: returns the process groups of this agent's own engines.
        clock: the time.
    """

    name = "gpu-use"
    timeout = LONGEST

    def __init__(
        self,
        reader: CardReader,
        processes: Processes,
        own_groups: Callable[[], frozenset[int]],
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._processes = processes
        self._own_groups = own_groups
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
    def samples(self) -> tuple[DeviceSample, ...]:
        """Return memory and foreign processes by device; none when the reading is too old."""
        seen = self.seen.fresh
        return () if seen is None else samples(seen.cards, self._own, self.seen.age)

    def holders(self, uuids: tuple[str, ...]) -> str | None:
        """Return in words who else has memory on these devices; None when nobody is known to."""
        words = [
            f"{process.command or 'a process'} (pid {process.pid}) holds "
            f"{show_bytes(process.memory_bytes)}"
            for sample in self.samples
            if sample.uuid in uuids
            for process in sample.foreign or ()
        ]
        return ", ".join(words) or None

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Put memory and processes into the readings of the cards.

        A device of which nothing else was measured lately is told of with these alone.
        """
        mine = {sample.uuid: sample for sample in self.samples}
        if not mine:
            return heartbeat
        others = heartbeat.devices or ()
        told = tuple(_with_use(sample, mine.pop(sample.uuid, None)) for sample in others)
        return msgspec.structs.replace(heartbeat, devices=(*told, *mine.values()))

    async def read(self) -> str:
        """Read memory and processes of all cards.

        Raises:
            LlmgwError: they could not be read although there are cards.
        """
        try:
            seen = await self._reader.read(USE)
        except NotFound:
            if self.seen.last is not None and self.seen.last.cards:
                raise
            seen = CardsSeen()
        if seen.cut:
            raise Unreadable("the answer ends in the middle of a card")
        readable = tuple(card for card in seen.cards if card.uuid is not None)
        if not readable and (seen.warning or seen.cards):
            raise Unreadable(seen.warning or "no card can be read")
        self._own = self._own_pids(readable)
        self.seen.put(msgspec.structs.replace(seen, cards=readable))
        if seen.trouble is not None:
            raise Unreadable(seen.trouble)
        return counted(len(readable), "NVIDIA card") if readable else "no NVIDIA cards"

    def _own_pids(self, cards: tuple[Card, ...]) -> frozenset[int]:
        groups = self._own_groups()
        if not groups:
            return frozenset()
        holders = [
            *(card.processes for card in cards),
            *(one.processes for card in cards for one in card.instances or ()),
        ]
        pids = {process.pid for processes in holders for process in processes or ()}
        found = ((pid, self._processes.look(pid)) for pid in pids)
        return frozenset(pid for pid, seen in found if seen is not None and seen.group in groups)


def _with_use(sample: DeviceSample, use: DeviceSample | None) -> DeviceSample:
    said = {name: value for name in _TOLD if (value := getattr(use, name, None)) is not None}
    return msgspec.structs.replace(sample, **said)
