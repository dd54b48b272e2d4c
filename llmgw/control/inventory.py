"""What a node has, brought up to date field by field, and what is wrong with it.

A field that is None says nothing: it keeps what an earlier message, or an agent that could say
more, told (invariant 4).
"""

from collections.abc import Iterator

import msgspec

from llmgw.fabric.managers import masters_of, still_seen
from llmgw.model.device import card_number
from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat, Host, Inventory
from llmgw.model.trouble import named_together, reasons, unsaid


def merged(old: Inventory, new: Inventory) -> Inventory:
    """Return the inventory after a message: what is said replaces, what is not said stays."""
    said = {
        name: value
        for name in new.__struct_fields__
        if (value := getattr(new, name)) is not None and name != "host"
    }
    if new.host is not None:
        said["host"] = _merged_host(old.host, new.host)
    return msgspec.structs.replace(old, **said) if said else old


def with_heartbeat(old: Inventory, heartbeat: Heartbeat) -> Inventory:
    """Return the inventory after a heartbeat: what a machine is, not how it is at the moment.

    Free space, counters and readings stay in the sample: they change with each heartbeat, and the
    inventory must not.
    """
    host = Host(
        cpus=heartbeat.cpus,
        memory_bytes=heartbeat.memory_bytes,
        mem_bandwidth_gbs=heartbeat.mem_bandwidth_gbs,
        mem_bandwidth_core_gbs=heartbeat.mem_bandwidth_core_gbs,
    )
    ports = None if heartbeat.ports is None else tuple(_without_counters(heartbeat.ports))
    known = None if old.ports is None else tuple(_without_counters(old.ports))
    return merged(
        old,
        Inventory(
            host=host if host != Host() else None,
            ports=ports if ports != known else None,
            weights=heartbeat.weights,
        ),
    )


def worse(old: Inventory, new: Inventory) -> bool:
    """Say whether something is wrong with what a node has that was not before.

    A port that carried traffic and does not is, too, and one that sees its master no more.
    """
    return not _wrong(new) <= _wrong(old) or not _working(old) <= _working(new)


def _wrong(inventory: Inventory) -> frozenset[tuple[str, str]]:
    """Return all that is wrong, device by device: of several one may recover."""
    devices = (
        (one.uuid, words) for one in inventory.devices or () for words in one.unhealthy or ()
    )
    others = (("", words) for words in (*unsaid(inventory), *_engines(inventory)))
    fabrics = (("fabric", words) for words in several_masters(inventory))
    return frozenset((*devices, *others, *fabrics))


def _working(inventory: Inventory) -> frozenset[tuple[str, int, str]]:
    found = {
        (port.adapter, port.number, what)
        for port in inventory.ports or ()
        if port.state is not None and "active" in port.state.lower()
        for what in ("active", *(("master",) if port.master_guid else ()))
    }
    domain = inventory.nvlink_domain
    if domain is not None and domain.imex_running:
        found.add(("", 0, "imex"))
    return frozenset(found)


def several_masters(inventory: Inventory) -> tuple[str, ...]:
    """Return the fabrics, as a node sees them, of which several subnet managers are master."""
    return tuple(
        f"fabric {fabric}: several subnet managers are master: {', '.join(sorted(guids))}"
        for fabric, guids in masters_of(
            still_seen(inventory.subnet_managers or (), inventory.ports or ())
        ).items()
        if len(guids) > 1
    )


def without_unseen(inventory: Inventory) -> Inventory:
    """Return what people are shown of a node: subnet managers that it still sees alone.

    An agent tells of managers when they change, and of each port's master with each heartbeat: the
    managers stay known, so that they are there again as soon as the master is.
    """
    if not inventory.subnet_managers or inventory.ports is None:
        return inventory
    seen = still_seen(inventory.subnet_managers, inventory.ports)
    if len(seen) == len(inventory.subnet_managers):
        return inventory
    return msgspec.structs.replace(inventory, subnet_managers=seen)


def device_named(inventory: Inventory, uuid: str) -> str:
    """Return what people call a device, or the card of a node's MIG instances."""
    for device in inventory.devices or ():
        if device.uuid == uuid:
            return device.shown
        if device.card_uuid == uuid and device.number is not None:
            return f"gpu{card_number(device.number)}"
    return uuid


def unhealthy(inventory: Inventory) -> tuple[str, ...]:
    """Return why something is wrong with what a node has, in its own words."""
    devices = (
        f"{named_together(found)}: {words}"
        for words, found in reasons(inventory.devices or ()).items()
    )
    return (*unsaid(inventory), *devices, *_engines(inventory))


def _engines(inventory: Inventory) -> list[str]:
    return [
        f"{engine.engine}: {engine.words or 'its installation failed'}"
        for engine in inventory.engines or ()
        if engine.state == "failed"
    ]


def _merged_host(old: Host | None, new: Host) -> Host:
    if old is None:
        return new
    said = {
        name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    return msgspec.structs.replace(old, **said)


def _without_counters(ports: tuple[Port, ...]) -> Iterator[Port]:
    for port in ports:
        yield msgspec.structs.replace(port, counters=None)
