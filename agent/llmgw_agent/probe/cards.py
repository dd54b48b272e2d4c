"""NVIDIA cards and their readings; who holds their memory and their links are asked apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.units import counted
from llmgw.base.world import Processes
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.host.helper import Helper
from llmgw_agent.parse.card_devices import devices, name_of, samples
from llmgw_agent.parse.card_history import since
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.probe.card_links import CardLinksProbe
from llmgw_agent.probe.card_reader import LONGEST, CardReader
from llmgw_agent.probe.card_request import CARDS
from llmgw_agent.probe.card_use import CardUseProbe
from llmgw_agent.probe.kept import OLDEST, Kept
from llmgw_agent.probe.source import Source

SILENT: Final = "the NVIDIA driver does not answer"

_WITH_CARDS = 10.0
_WITHOUT_CARDS = 60.0


class CardsProbe(Source):
    """The cards and their readings.

    Invariant: a card that was seen once stays listed; while the driver does not answer for it, it
    is unhealthy with the reason, and its last readings are told until they are a minute old.

    Args:
        reader: asks for the cards.
        clock: the time.
    """

    name = "gpus"
    timeout = LONGEST

    def __init__(self, reader: CardReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._measured: dict[str, Kept[Card]] = {}
        self._asked: float | None = None
        """Since when an answer is waited for; None: the last one came."""
        self._failed = False
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
        if self._silent:
            last = since(last.cards, CardsSeen(warning=SILENT))
        return devices(last.cards)

    @property
    def samples(self) -> tuple[DeviceSample, ...] | None:
        """Return what was measured of each card, with its age; None when nothing was asked yet.

        A card of which nothing was measured within a minute is not among them.
        """
        if self.seen.last is None:
            return None
        return tuple(
            sample
            for kept in self._measured.values()
            if (card := kept.fresh) is not None
            for sample in samples((card,), None, kept.age)
        )

    @property
    def warnings(self) -> tuple[NodeWarning, ...]:
        """Return what a person should know about the driver."""
        last = self.seen.last
        words = [] if last is None or last.warning is None else [last.warning]
        if self._silent and last is not None and last.cards:
            words.append(SILENT)
        return tuple(NodeWarning(subject="gpu", words=text) for text in words)

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
        """Read all cards.

        Raises:
            LlmgwError: no card could be read although there are some, or not all of them, or not
            the instances of one.
        """
        before = self.seen.last
        known = () if before is None else before.cards
        now = await self._answer(can_be_absent=not known)
        seen = since(known, now)
        self.seen.put(seen)
        self._keep(now.cards)
        listed = {name_of(card) for card in seen.cards}
        self._measured = {name: kept for name, kept in self._measured.items() if name in listed}
        _check(seen)
        return _sentence(seen)

    @property
    def _silent(self) -> bool:
        """Say whether the driver does not answer; one that is slow does, in the end."""
        age = self.seen.age
        if age is None or age <= OLDEST:
            return False
        waited = None if self._asked is None else self._clock.monotonic() - self._asked
        return self._failed or waited is None or waited > LONGEST

    async def _answer(self, *, can_be_absent: bool) -> CardsSeen:
        """Return what the driver says; no cards where it may be absent and is."""
        if self._asked is None:
            self._asked = self._clock.monotonic()
        try:
            now = await self._reader.read(CARDS)
        except NotFound:
            if not can_be_absent:
                self._failed = True
                raise
            now = CardsSeen()
        except BaseException:
            self._failed = True
            raise
        self._asked, self._failed = None, False
        return now

    def _keep(self, cards: tuple[Card, ...]) -> None:
        for card in cards:
            if card.uuid is not None and card.trouble is None:
                self._measured.setdefault(name_of(card), Kept(self._clock)).put(card)

    async def close(self) -> None:
        """End the helper."""
        await self._reader.close()


def _check(seen: CardsSeen) -> None:
    """Say that the reading failed, where it told of no card, was cut or lacks instances.

    Raises:
        Unreadable: it did.
    """
    if seen.cut:
        raise Unreadable("the answer ends in the middle of a card")
    if all(card.trouble is not None for card in seen.cards):
        said = seen.warning or next((card.trouble for card in seen.cards), None)
        if said is not None:
            raise Unreadable(said)
    if seen.trouble is not None:
        raise Unreadable(seen.trouble)


def _sentence(seen: CardsSeen) -> str:
    if not seen.cards:
        return "no NVIDIA cards"
    broken = sum(1 for card in seen.cards if card.trouble is not None)
    named = counted(len(seen.cards), "NVIDIA card")
    return f"{named}, {broken} of them broken" if broken else named


@dataclass(frozen=True, slots=True)
class CardProbes:
    """Everything that is asked of the cards, in the order in which it is told."""

    cards: CardsProbe
    use: CardUseProbe
    links: CardLinksProbe

    @property
    def all(self) -> tuple[CardsProbe, CardUseProbe, CardLinksProbe]:
        """Return the sources."""
        return (self.cards, self.use, self.links)


def card_probes(
    helper: Helper,
    processes: Processes,
    own_groups: Callable[[], frozenset[int]],
    clock: Clock,
) -> CardProbes:
    """Return the probes of the cards, which share one reader.

    Args:
        helper: asks NVML (`probe.nvml_side`).
        processes: runs nvidia-smi, and tells which group a process is of.
        own_groups: returns the process groups of this agent's own engines.
        clock: the time.
    """
    reader = CardReader(helper, processes, clock)
    return CardProbes(
        cards=CardsProbe(reader, clock),
        use=CardUseProbe(reader, processes, own_groups, clock),
        links=CardLinksProbe(reader, clock),
    )
