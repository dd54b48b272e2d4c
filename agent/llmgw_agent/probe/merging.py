"""Several sources speak of one device: adding what one says to what the others said.

All are pure. Nothing that another source said is overwritten, and what is None says nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec

from llmgw.model.device import Device, DeviceHealth
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.parse.pci import pci_key


def with_health(heartbeat: Heartbeat, by_uuid: Mapping[str, DeviceHealth]) -> Heartbeat:
    """Return the heartbeat with more of its devices' health.

    A device is told of once. Its age is that of its oldest reading.
    """
    if not by_uuid:
        return heartbeat
    health = {one.uuid: one for one in heartbeat.health or ()}
    for uuid, more in by_uuid.items():
        before = health.get(uuid)
        health[uuid] = more if before is None else _both(before, more)
    return msgspec.structs.replace(heartbeat, health=tuple(health.values()))


def _both(before: DeviceHealth, more: DeviceHealth) -> DeviceHealth:
    new = {
        name: value
        for name in DeviceHealth.__struct_fields__
        if getattr(before, name) is None and (value := getattr(more, name)) is not None
    }
    ages = [age for age in (before.age, more.age) if age is not None]
    return msgspec.structs.replace(before, **{**new, "age": max(ages, default=None)})


def with_unhealthy(inventory: Inventory, by_uuid: Mapping[str, Sequence[str]]) -> Inventory:
    """Return the inventory with more reasons why nothing can be placed on a device.

    Args:
        inventory: as told so far.
        by_uuid: reasons by device; of a card they count for its instances as well. Empty: this
            source looked and found nothing. A device that is not named stays as it was.
    """
    devices = inventory.devices
    if not by_uuid or devices is None:
        return inventory
    return msgspec.structs.replace(
        inventory, devices=tuple(_with_reasons(device, by_uuid) for device in devices)
    )


def _with_reasons(device: Device, by_uuid: Mapping[str, Sequence[str]]) -> Device:
    keys = [key for key in (device.uuid, device.card_uuid) if key is not None]
    said = [by_uuid[key] for key in keys if key in by_uuid]
    if not said:
        return device
    reasons = [*(device.unhealthy or ()), *(reason for reasons in said for reason in reasons)]
    return msgspec.structs.replace(device, unhealthy=tuple(dict.fromkeys(reasons)))


def with_warnings(inventory: Inventory, warnings: Sequence[NodeWarning]) -> Inventory:
    """Return the inventory with more warnings."""
    if not warnings:
        return inventory
    return msgspec.structs.replace(inventory, warnings=(*(inventory.warnings or ()), *warnings))


def card_uuids(inventory: Inventory) -> dict[str, str]:
    """Return the cards' UUIDs by PCI address (`parse.pci.pci_key`); an instance names its card."""
    return {
        key: device.card_uuid or device.uuid
        for device in inventory.devices or ()
        if (key := pci_key(device.pci_address)) is not None
    }
