"""NVIDIA cards as either reader sees them, and the records that are made of them.

NVML and nvidia-smi fill the same `Card`, so that both paths give the same records.
"""

import math
import re

import msgspec

from llmgw.model.device import GPU, Device, DeviceSample, ForeignProcess
from llmgw.model.record import Record

_SIZES = (
    *(1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64),
    *(80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 288, 384),
)
"""GB as makers print them; a card shows up to a sixteenth less (ECC, reserved)."""

_MAKER_WORDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "graphics", "device"})
_FORM_WORDS = frozenset(
    {"pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "hbm2", "hbm2e", "hbm3", "hbm3e"}
)
_PRINTED_SIZE = re.compile(r"^(\d+)gb$")

THROTTLE_REASONS = (
    (0x1, "idle"),
    (0x2, "application clocks"),
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "heat (software)"),
    (0x40, "heat (hardware)"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
)
"""Bits of NVML's clock event reasons, in words."""


class CardProcess(Record, frozen=True, kw_only=True):
    """A process on a card. Bytes."""

    pid: int
    name: str | None = None
    memory_bytes: int | None = None


class Card(Record, frozen=True, kw_only=True):
    """One card as a reader sees it. Bytes, watts, degrees Celsius, MHz, percent.

    `uuid` is None for a card that the driver does not answer for; `trouble` then says why.
    """

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci_address: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_of_its_own: bool | None = None
    """False: the driver says that the question makes no sense, so the machine's memory counts."""
    busy: float | None = None
    bandwidth: float | None = None
    temperature: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    fan: float | None = None
    mig: bool | None = None
    compute_capability: str | None = None
    throttle_bits: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    numa_node: int | None = None
    processes: tuple[CardProcess, ...] | None = None
    """None: it could not be asked."""
    trouble: str | None = None


class CardsSeen(Record, frozen=True, kw_only=True):
    """Everything that one reading of the cards gave."""

    cards: tuple[Card, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    warning: str | None = None
    """Something about the driver that a person should know."""


def device_class(name: str | None, memory_bytes: int | None) -> str | None:
    """Return the class that placement counts: `h100-80g`; None for a card without a name."""
    if not name:
        return None
    words = [w for w in re.split(r"[\s-]+", name.lower()) if w and w not in _MAKER_WORDS]
    printed = next((m[1] for w in words if (m := _PRINTED_SIZE.match(w))), None)
    model = [w for w in words if w not in _FORM_WORDS and not _PRINTED_SIZE.match(w)]
    # What the driver measures goes before what is printed: a GH200 prints its processor's memory.
    size = _size_gb(memory_bytes) or (int(printed) if printed else None)
    slug = "-".join(re.sub(r"[^a-z0-9.]", "", w) for w in model) or "gpu"
    return slug if size is None else f"{slug}-{size}g"


def _size_gb(memory_bytes: int | None) -> int | None:
    if not memory_bytes:
        return None
    gib = memory_bytes / (1 << 30)
    return next((size for size in _SIZES if size >= gib), math.ceil(gib))


def since(before: tuple[Card, ...], seen: CardsSeen) -> CardsSeen:
    """Return a reading in which no card of the last one is silently missing.

    A card that the driver does not answer for keeps the name it had; one that is gone from the
    driver's list stays, with that as its trouble.
    """
    known = {_address(card): card for card in before if card.uuid is not None}
    by_index = {card.index: card for card in before if card.uuid is not None}
    named: list[Card] = []
    for card in seen.cards:
        same = known.get(_address(card)) if card.pci_address else by_index.get(card.index)
        named.append(card if card.uuid is not None or same is None else _still(same, card.trouble))
    there = {card.uuid for card in named}
    gone = [card for card in known.values() if card.uuid not in there]
    why = seen.warning or "the driver no longer lists the card"
    return msgspec.structs.replace(seen, cards=(*named, *(_still(card, why) for card in gone)))


def _address(card: Card) -> str | None:
    """Return a PCI address in one form: tools print the domain with four digits or eight."""
    if card.pci_address is None:
        return None
    domain, _, rest = card.pci_address.lower().rjust(12, "0").partition(":")
    return f"{domain.lstrip('0')}:{rest}"


def _still(card: Card, trouble: str | None) -> Card:
    """Return a card of which nothing is measured any more."""
    return Card(
        index=card.index,
        uuid=card.uuid,
        name=card.name,
        pci_address=card.pci_address,
        memory_total=card.memory_total,
        memory_of_its_own=card.memory_of_its_own,
        mig=card.mig,
        compute_capability=card.compute_capability,
        numa_node=card.numa_node,
        trouble=trouble or "the driver does not answer for the card",
    )


def devices(cards: tuple[Card, ...]) -> tuple[Device, ...]:
    """Return what placement is told of the cards."""
    return tuple(_device(card) for card in cards)


def _device(card: Card) -> Device:
    return Device(
        uuid=name_of(card),
        kind=GPU,
        number=card.index,
        name=card.name,
        vendor="nvidia",
        device_class=device_class(card.name, card.memory_total),
        memory_bytes=card.memory_total,
        unified=None if card.memory_of_its_own is None else not card.memory_of_its_own,
        pci_address=card.pci_address,
        numa_node=card.numa_node,
        mig_enabled=card.mig,
        compute_capability=card.compute_capability,
        unhealthy=_unhealthy(card),
    )


def name_of(card: Card) -> str:
    """Return the card's UUID, or a name from its place where the driver gives none."""
    if card.uuid is not None:
        return card.uuid
    place = card.pci_address if card.pci_address is not None else card.index
    return f"unreadable-{'card' if place is None else place}"


def _unhealthy(card: Card) -> tuple[str, ...]:
    reasons = [] if card.trouble is None else [card.trouble]
    if card.mig:
        # Its instances are the devices; until they are read nothing may be placed on the card.
        reasons.append("MIG mode is on and its instances are not read by this version")
    return tuple(reasons)


def samples(
    cards: tuple[Card, ...], own: frozenset[int], age: float | None
) -> tuple[DeviceSample, ...]:
    """Return the cards' readings.

    Args:
        cards: as read.
        own: pids of this agent's own engines.
        age: seconds since the reading.
    """
    return tuple(_sample(card, own, age) for card in cards)


def _sample(card: Card, own: frozenset[int], age: float | None) -> DeviceSample:
    return DeviceSample(
        uuid=name_of(card),
        # A card's share of busy time says nothing about its instances.
        busy_percent=None if card.mig else card.busy,
        memory_used_bytes=card.memory_used,
        memory_total_bytes=card.memory_total,
        memory_bandwidth_percent=None if card.mig else card.bandwidth,
        sm_clock_mhz=card.sm_clock,
        power_watts=card.power,
        power_limit_watts=card.power_limit,
        temperature_celsius=card.temperature,
        fan_percent=card.fan,
        throttle_reasons=_throttle_reasons(card.throttle_bits),
        ecc_corrected=card.ecc_corrected,
        ecc_uncorrected=card.ecc_uncorrected,
        pcie_replays=card.pcie_replays,
        foreign=_foreign(card, own),
        age=age,
    )


def _throttle_reasons(bits: int | None) -> tuple[str, ...] | None:
    if bits is None:
        return None
    return tuple(words for bit, words in THROTTLE_REASONS if bits & bit)


def _foreign(card: Card, own: frozenset[int]) -> tuple[ForeignProcess, ...] | None:
    if card.processes is None:
        return None
    return tuple(
        ForeignProcess(pid=p.pid, command=p.name, memory_bytes=p.memory_bytes)
        for p in card.processes
        if p.pid not in own
    )
