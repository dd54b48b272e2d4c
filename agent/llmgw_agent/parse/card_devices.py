"""What records are made of cards: devices, as placement is told of them, and their readings."""

from collections.abc import Iterator, Sequence

from llmgw.model.device import (
    BOTH,
    COMPUTE,
    GPU,
    GRAPHICS,
    MIG,
    Device,
    DeviceSample,
    ForeignProcess,
)
from llmgw_agent.parse.cards import IDLE, THROTTLE_REASONS, Card, CardProcess, Instance
from llmgw_agent.parse.device_class import device_class
from llmgw_agent.parse.mig import NOT_READ, NOTHING_CARVED, instance_class, instance_number

_NO_UUID = "the driver does not tell the instance's UUID, so no engine can be given it"


def devices(cards: Sequence[Card]) -> tuple[Device, ...]:
    """Return what placement is told of the cards.

    A card in MIG mode stands for its heat, power and wear; what engines are given are its
    instances, which follow it.
    """
    return tuple(device for card in cards for device in (_device(card), *_instances(card)))


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
        nvlink_peers=card.nvlink_peers,
        pci=card.pci,
        nvlink=card.fabric,
        unhealthy=_unhealthy(card),
    )


def name_of(card: Card) -> str:
    """Return the card's UUID, or a name from its place where the driver gives none."""
    if card.uuid is not None:
        return card.uuid
    place = card.pci_address if card.pci_address is not None else card.index
    return f"unreadable-{'card' if place is None else place}"


def instance_name(card: Card, instance: Instance) -> str:
    """Return the instance's UUID, or a name from its place where the driver gives none."""
    return instance.uuid or f"{name_of(card)}/mig{instance.index}"


def _unhealthy(card: Card) -> tuple[str, ...]:
    reasons = [] if card.trouble is None else [card.trouble]
    if card.mig and card.trouble is None and not card.instances:
        # Said as a reason against placement: nobody can be given the card, nor a part of it.
        reasons.append(NOT_READ if card.instances is None else NOTHING_CARVED)
    return tuple(reasons)


def _instances(card: Card) -> Iterator[Device]:
    whole = device_class(card.name, card.memory_total)
    for instance in card.instances or ():
        reasons = [why for why in (card.trouble, instance.trouble) if why is not None]
        if instance.uuid is None:
            reasons.append(_NO_UUID)
        yield Device(
            uuid=instance_name(card, instance),
            kind=MIG,
            number=instance_number(card.index, instance.index),
            name=card.name,
            vendor="nvidia",
            device_class=instance_class(whole, instance.profile),
            card_uuid=name_of(card),
            memory_bytes=instance.memory_total,
            unified=False,
            pci_address=card.pci_address,
            numa_node=card.numa_node,
            mig_profile=instance.profile,
            gpu_instance=instance.gpu_instance,
            compute_instance=instance.compute_instance,
            compute_capability=card.compute_capability,
            unhealthy=tuple(reasons),
        )


def samples(
    cards: Sequence[Card], own: frozenset[int] | None, age: float | None
) -> tuple[DeviceSample, ...]:
    """Return the readings of cards and instances.

    Args:
        cards: as read.
        own: pids of this agent's own engines; None: not known, so nobody is told as foreign.
        age: seconds since the reading.
    """
    return tuple(
        sample
        for card in cards
        for sample in (_sample(card, own, age), *_instance_samples(card, own, age))
    )


def _sample(card: Card, own: frozenset[int] | None, age: float | None) -> DeviceSample:
    # A card's share of busy time says nothing about its instances, and is not measured then.
    busy = None if card.mig else card.busy
    return DeviceSample(
        uuid=name_of(card),
        busy_percent=busy,
        memory_used_bytes=card.memory_used,
        memory_total_bytes=card.memory_total,
        memory_bandwidth_percent=None if card.mig else card.bandwidth,
        sm_clock_mhz=card.sm_clock,
        power_watts=card.power,
        power_limit_watts=card.power_limit,
        temperature_celsius=card.temperature,
        memory_temperature_celsius=card.memory_temperature,
        fan_percent=card.fan,
        throttle_reasons=_throttle_reasons(card.throttle_bits),
        ecc_corrected=card.ecc_corrected,
        ecc_uncorrected=card.ecc_uncorrected,
        pcie_replays=card.pcie_replays,
        sm_active_percent=card.sm_active,
        sm_occupancy_percent=card.sm_occupancy,
        tensor_active_percent=card.tensor_active,
        dram_active_percent=card.dram_active,
        foreign=_foreign(card.processes, own),
        age=age,
    )


def _instance_samples(
    card: Card, own: frozenset[int] | None, age: float | None
) -> Iterator[DeviceSample]:
    for instance in card.instances or ():
        yield DeviceSample(
            uuid=instance_name(card, instance),
            memory_used_bytes=instance.memory_used,
            memory_total_bytes=instance.memory_total,
            foreign=_foreign(instance.processes, own),
            age=age,
        )


def _throttle_reasons(bits: int | None) -> tuple[str, ...] | None:
    if bits is None:
        return None
    return tuple(words for bit, words in THROTTLE_REASONS if bits & bit and words != IDLE)


def process_kind(said: str | None) -> str | None:
    """Return what a process does, of what nvidia-smi writes: `C`, `M+C` (MPS), `G`, `C+G`."""
    computes, draws = "C" in (said or ""), "G" in (said or "")
    if computes and draws:
        return BOTH
    return COMPUTE if computes else GRAPHICS if draws else None


def _foreign(
    processes: tuple[CardProcess, ...] | None, own: frozenset[int] | None
) -> tuple[ForeignProcess, ...] | None:
    if processes is None or own is None:
        return None
    return tuple(
        ForeignProcess(
            pid=p.pid, command=p.name, memory_bytes=p.memory_bytes, kind=process_kind(p.kind)
        )
        for p in processes
        if p.pid not in own
    )
