"""PCIe and NVLink of the cards, and their wear, through NVML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from llmgw.model.device import DeviceHealth, PciLink
from llmgw_agent.parse import plausible
from llmgw_agent.parse.cards import Card
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.probe.nvml_asking import Asking, count, errors, text

_MOST_LINKS: Final = 36


@dataclass(frozen=True, slots=True)
class Links:
    """One card's NVLinks: how many there are and how many are up, and what the latter lead to."""

    known: int = 0
    up: int = 0
    to: frozenset[str] = frozenset()
    """PCI addresses of the cards that links lead to (`parse.pci.pci_key`)."""
    switched: bool = False
    """A link leads to an NVSwitch."""


def pci_link(asking: Asking, handle: object) -> PciLink | None:
    """Return a card's PCIe link; None when nothing is told of it."""

    def told(name: str) -> int | None:
        return asking.ask(f"nvmlDeviceGet{name}", handle, to=count)

    link = PciLink(
        max_generation=told("MaxPcieLinkGeneration"),
        card_generation=told("GpuMaxPcieLinkGeneration"),
        lanes=told("CurrPcieLinkWidth"),
        max_lanes=told("MaxPcieLinkWidth"),
    )
    return None if link == PciLink() else link


def nvlinks(asking: Asking, handle: object) -> Links | None:
    """Return a card's NVLinks; None when it has none."""
    asked = {
        link: asking.ask("nvmlDeviceGetNvLinkState", handle, link, to=bool)
        for link in range(_MOST_LINKS)
    }
    known = [link for link, state in asked.items() if state is not None]
    up = [link for link in known if asked[link]]
    if not known:
        return None
    switch = asking.constant("NVML_NVLINK_DEVICE_TYPE_SWITCH")
    kinds = {asking.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, to=int) for link in up}
    addresses = (
        asking.ask(
            "nvmlDeviceGetNvLinkRemotePciInfo", handle, link, to=lambda info: text(info.busId)
        )
        for link in up
    )
    return Links(
        known=len(known),
        up=len(up),
        to=frozenset(key for address in addresses if (key := pci_key(address)) is not None),
        switched=switch is not None and switch in kinds,
    )


def with_peers(cards: Sequence[Card], links: Mapping[str, Links]) -> tuple[Card, ...]:
    """Return the cards with the cards that each reaches over NVLink.

    Args:
        cards: all of the machine.
        links: by UUID; those behind NVSwitches reach one another.
    """
    return tuple(_with_peers(card, cards, links) for card in cards)


def _with_peers(card: Card, cards: Sequence[Card], links: Mapping[str, Links]) -> Card:
    mine = links.get(card.uuid or "")
    if mine is None or card.uuid is None:
        return card
    peers = tuple(
        other.uuid
        for other in cards
        if other.uuid is not None
        and other.uuid != card.uuid
        and (
            pci_key(other.pci_address) in mine.to
            or (mine.switched and links.get(other.uuid, Links()).switched)
        )
    )
    health = card.health if card.health is not None else DeviceHealth(uuid=card.uuid)
    return msgspec.structs.replace(
        card,
        nvlink_peers=peers,
        health=msgspec.structs.replace(
            health, nvlinks=mine.known, nvlinks_down=mine.known - mine.up
        ),
    )


def health(asking: Asking, handle: object, uuid: str) -> DeviceHealth | None:
    """Return what a card says of its wear; None when it says nothing."""

    def ecc(kind: str, span: str) -> int | None:
        kinds = (f"NVML_MEMORY_ERROR_TYPE_{kind}", f"NVML_{span}_ECC")
        return asking.ask(
            "nvmlDeviceGetTotalEccErrors", handle, *map(asking.constant, kinds), to=errors
        )

    rows = asking.ask("nvmlDeviceGetRemappedRows", handle, to=tuple) or (None,) * 4
    corrected, uncorrected, pending, failed = rows
    told = DeviceHealth(
        uuid=uuid,
        ecc_corrected_volatile=ecc("CORRECTED", "VOLATILE"),
        ecc_uncorrected_volatile=ecc("UNCORRECTED", "VOLATILE"),
        ecc_corrected_aggregate=ecc("CORRECTED", "AGGREGATE"),
        ecc_uncorrected_aggregate=ecc("UNCORRECTED", "AGGREGATE"),
        remapped_corrected=plausible.count(corrected),
        remapped_uncorrected=plausible.count(uncorrected),
        remap_pending=None if pending is None else bool(pending),
        remap_failed=None if failed is None else bool(failed),
    )
    return None if told == DeviceHealth(uuid=uuid) else told
