"""Whether a device can be given out, and why not: one verdict, for scrapes, commands and console.

Placement itself decides by the same facts; a test holds the two together.
"""

from collections.abc import Iterable, Mapping

from llmgw.model.device import MIG, Device, DeviceSample
from llmgw.model.node import DRAINING, READY, Node
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED, STOPPED

FREE, HELD, UNCARVED = "free", "held", "in MIG mode"
AWAY, UNHEALTHY, FOREIGN, DRAINS, CORDONS = UNAVAILABLE = (
    "away",
    "unhealthy",
    "foreign",
    "draining",
    "cordoned",
)
"""Why a device that nobody holds can't be given out; of several reasons the first counts."""

FOREIGN_SHARE = 0.1
"""Of a device's memory: what engines leave free of it by themselves. Others may have so much."""


def availability(device: Device, node: Node, reading: DeviceSample | None, *, held: bool) -> str:
    """Return `held`, `free` or, of `UNAVAILABLE`, why a device can't be given out.

    A card in MIG mode of which no instance is carved is given to nobody: `in MIG mode`.

    Args:
        device: a card that is not cut into instances, or an instance.
        node: where it is.
        reading: its last readings, of which those of a node that is away do not matter.
        held: see `holders`.
    """
    if held:
        return HELD
    reasons = {
        AWAY: node.liveness != READY,
        UNHEALTHY: bool(device.unhealthy),
        FOREIGN: is_foreign(reading),
        DRAINS: node.wish == DRAINING,
        CORDONS: node.wish is not None,
    }
    given = UNCARVED if device.mig_enabled and not is_instance(device) else FREE
    return next((reason for reason in UNAVAILABLE if reasons[reason]), given)


def is_foreign(reading: DeviceSample | None) -> bool:
    """Say whether others than llmgw keep a device that nobody holds.

    They compute on it, or they fill its memory: drawing takes a little, and what no process is seen
    to have is gone all the same.
    """
    if reading is None:
        return False
    if reading.foreign and any(not one.only_draws for one in reading.foreign):
        return True
    total = reading.memory_total_bytes
    taken = foreign_bytes(reading) if total else None
    return taken is not None and taken > FOREIGN_SHARE * (total or 0)


def foreign_bytes(reading: DeviceSample) -> int | None:
    """Return what others have of the memory of a device that nobody holds; None: not known."""
    if not reading.foreign:
        return reading.memory_used_bytes
    known = [one.memory_bytes for one in reading.foreign if one.memory_bytes is not None]
    if reading.memory_used_bytes is not None:
        return max(reading.memory_used_bytes, sum(known))
    return sum(known) if known else None


def is_instance(device: Device) -> bool:
    """Say whether a device is a MIG instance and not a card."""
    return device.kind == MIG or device.card_uuid is not None


def given_out(devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return what is given to engines: no card that is in MIG mode or cut into instances."""
    found = tuple(devices)
    cut = {device.card_uuid for device in found}
    return tuple(
        device
        for device in found
        if device.uuid not in cut and (is_instance(device) or not device.mig_enabled)
    )


def holders(node: Node, replicas: Iterable[Replica]) -> dict[str, str]:
    """Return who holds each of a node's devices, by UUID: a replica's id.

    A shard in a state that is not known holds its devices: only one that is known to have ended
    holds nothing.
    """
    named = {
        uuid: replica.id
        for replica in replicas
        for part in replica.shards
        if part.node == node.id and part.state not in {STOPPED, FAILED}
        for uuid in part.devices
    }
    return spread(named, node.inventory.devices or ())


def spread(named: Mapping[str, str], devices: Iterable[Device]) -> dict[str, str]:
    """Return holders with what their devices take along.

    An instance takes its card, and a card its instances.
    """
    held = dict(named)
    parts = [(one.uuid, one.card_uuid) for one in devices if one.card_uuid is not None]
    for uuid, card in parts:
        if uuid in named:
            held.setdefault(card, named[uuid])
        elif card in named:
            held.setdefault(uuid, named[card])
    return held
