"""How NVIDIA cards are linked, PCIe and NVLink, and what NVML tells of their wear: each minute."""

from collections.abc import Iterator

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.units import counted
from llmgw.model.device import MIG, Device
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.parse.pcie import slow_link
from llmgw_agent.parse.plausible import MOST_CARDS
from llmgw_agent.probe.card_reader import LONGEST, CardReader
from llmgw_agent.probe.card_request import LINKS
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.merging import with_health, with_warnings
from llmgw_agent.probe.source import Source


class CardLinksProbe(Source):
    """PCIe links, NVLink peers, and wear.

    What a link can do is no reading that ages: the last one is told until there is another.

    Args:
        reader: asks for them.
        clock: the time.
    """

    name = "gpu-links"
    period = 60.0
    timeout = LONGEST
    late = True

    def __init__(self, reader: CardReader, clock: Clock) -> None:
        self._reader = reader
        self._cards: dict[str, Card] = {}
        self.seen: Kept[CardsSeen] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.seen.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the cards' links, and a warning for each that carries less than it could.

        The CUDA version is added where the cards' own reading did not tell it.
        """
        seen, host = self.seen.last, inventory.host
        if seen is not None and host is not None and host.cuda_version is None:
            host = msgspec.structs.replace(host, cuda_version=seen.cuda)
            inventory = msgspec.structs.replace(inventory, host=host)
        if not self._cards or inventory.devices is None:
            return inventory
        if inventory.devices:
            there = {device.uuid for device in inventory.devices}
            self._cards = {uuid: card for uuid, card in self._cards.items() if uuid in there}
        devices = tuple(map(self._linked, inventory.devices))
        inventory = msgspec.structs.replace(inventory, devices=devices)
        return with_warnings(inventory, tuple(_warnings(devices)))

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add what the cards say of their wear."""
        age = self.seen.age
        seen = self.seen.fresh
        told = () if seen is None else (card.health for card in seen.cards)
        return with_health(
            heartbeat,
            {one.uuid: msgspec.structs.replace(one, age=age) for one in told if one is not None},
        )

    async def read(self) -> str:
        """Read the links of all cards.

        Raises:
            LlmgwError: they could not be read although there are cards.
        """
        try:
            seen = await self._reader.read(LINKS)
        except NotFound:
            if self._cards:
                raise
            seen = CardsSeen()
        found = {card.uuid: card for card in seen.cards if card.uuid is not None}
        if not found and (seen.warning or seen.cards):
            raise Unreadable(seen.warning or "no card can be read")
        others = [(uuid, card) for uuid, card in self._cards.items() if uuid not in found]
        self._cards = dict([*others, *found.items()][-MOST_CARDS:])
        self.seen.put(seen)
        if seen.cut:
            raise Unreadable("the answer ends in the middle of a card")
        if seen.trouble is not None:
            raise Unreadable(seen.trouble)
        return f"links of {counted(len(found), 'NVIDIA card')}" if found else "no NVIDIA cards"

    def _linked(self, device: Device) -> Device:
        card = self._cards.get(device.uuid)
        if card is None or device.kind == MIG:
            return device
        peers = card.nvlink_peers if device.nvlink_peers is None else device.nvlink_peers
        return msgspec.structs.replace(device, pci=card.pci or device.pci, nvlink_peers=peers)


def _warnings(devices: tuple[Device, ...]) -> Iterator[NodeWarning]:
    for device in devices:
        words = None if device.pci is None else slow_link(device.pci, device.pci_address)
        if words is not None:
            yield NodeWarning(subject=device.shown, words=words)
