"""What a node has, brought up to date field by field, and what changed in words (INV-13).

A field that is None says nothing: it keeps what an earlier message, or an agent that could say
more, told (invariant 4).
"""

from collections.abc import Iterator

import msgspec

from llmgw.base.units import show_bytes
from llmgw.model.device import Device, NvlinkFabric, PciLink, card_number
from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat, Host, InstalledEngine, Inventory, NodeWarning, WeightsHeld
from llmgw.plan.words import some


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


def differences(old: Inventory, new: Inventory) -> tuple[str, ...]:
    """Return what changed in words: why a node now qualifies, or no longer does."""
    return (
        *_host_words(old.host, new.host),
        *_device_words(old.devices or (), new.devices or ()),
        *_engine_words(old.engines or (), new.engines or ()),
        *_port_words(old.ports or (), new.ports or ()),
        *_weights_words(old.weights, new.weights),
        *_count_words("filesystems", old.filesystems, new.filesystems),
        *_nvlink_words(old, new),
        *_warning_words(old.warnings, new.warnings),
    )


def worse(old: Inventory, new: Inventory) -> bool:
    """Say whether something is wrong with what a node has that was not before."""
    return not frozenset(unhealthy(new)) <= frozenset(unhealthy(old))


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
    warnings = [f"{warning.subject}: {warning.words}" for warning in inventory.warnings or ()]
    devices = [
        f"{_device_name(device)}: {words}"
        for device in inventory.devices or ()
        for words in device.unhealthy or ()
    ]
    engines = [
        f"{engine.engine}: {engine.words or 'its installation failed'}"
        for engine in inventory.engines or ()
        if engine.state == "failed"
    ]
    return (*warnings, *devices, *engines)


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


def _host_words(old: Host | None, new: Host | None) -> Iterator[str]:
    if old is None or new is None:
        return
    if old.memory_bytes is not None and old.memory_bytes != new.memory_bytes:
        yield f"memory {show_bytes(old.memory_bytes)} → {show_bytes(new.memory_bytes)}"
    for name, words in (
        ("cpus", "CPUs"),
        ("kernel", "kernel"),
        ("nvidia_driver", "NVIDIA driver"),
        ("cuda_version", "CUDA"),
    ):
        before, after = getattr(old, name), getattr(new, name)
        if before is not None and before != after:
            yield f"{words} {before} → {after}"


def _device_words(old: tuple[Device, ...], new: tuple[Device, ...]) -> Iterator[str]:
    before = {device.uuid: device for device in old}
    after = {device.uuid: device for device in new}
    for uuid, device in before.items():
        if uuid not in after:
            yield f"{_device_name(device)} is gone"
    for uuid, device in after.items():
        known = before.get(uuid)
        if known is None:
            if old:
                yield f"{_device_name(device)} is there now"
        else:
            yield from (f"{_device_name(device)}: {words}" for words in _changes_of(known, device))


def _changes_of(old: Device, new: Device) -> Iterator[str]:
    # That a device is fine is no news where nothing was known of it.
    if old.unhealthy != new.unhealthy and (old.unhealthy or new.unhealthy):
        yield "; ".join(new.unhealthy or ()) or "fine"
    if old.pci is not None and new.pci is not None and _link(old.pci) != _link(new.pci):
        yield f"PCIe {_link(old.pci)} → {_link(new.pci)}"
    if old.nvlink is not None and new.nvlink is not None:
        before, after = _fabric(old.nvlink), _fabric(new.nvlink)
        if before != after:
            yield f"NVLink fabric {before} → {after}"


def _link(link: PciLink) -> str:
    generation, lanes = link.max_generation, link.lanes
    return f"generation {generation or '-'} with {lanes or '-'} lanes"


def _fabric(fabric: NvlinkFabric) -> str:
    """Return whether a device is joined to its NVLink fabric: `Completed, Success`."""
    return ", ".join(word for word in (fabric.state, fabric.status) if word) or "-"


def _device_name(device: Device) -> str:
    what = device.name or device.device_class or device.uuid
    return device.shown if what == device.shown else f"{device.shown} ({what})"


def _engine_words(
    old: tuple[InstalledEngine, ...], new: tuple[InstalledEngine, ...]
) -> Iterator[str]:
    before = {(engine.engine, engine.version): engine for engine in old}
    after = {(engine.engine, engine.version): engine for engine in new}
    for which in before:
        if which not in after:
            yield f"{_engine_name(*which)} is gone"
    for which, engine in after.items():
        known = before.get(which)
        state = engine.state or "there"
        if known is None:
            yield f"{_engine_name(*which)} is {state}"
        elif known.state != engine.state:
            words = f": {engine.words}" if state == "failed" and engine.words else ""
            yield f"{_engine_name(*which)} is {state}{words}"


def _engine_name(engine: str, version: str | None) -> str:
    return f"{engine} {version}" if version else engine


def _port_words(old: tuple[Port, ...], new: tuple[Port, ...]) -> Iterator[str]:
    before = {(port.adapter, port.number): port for port in old}
    after = {(port.adapter, port.number): port for port in new}
    for which, port in before.items():
        name = f"port {which[0]}/{which[1]}"
        now = after.get(which)
        if now is None:
            yield f"{name} is gone"
            continue
        for what, was, is_ in (
            ("", port.state, now.state),
            ("fabric ", port.fabric, now.fabric),
            ("master subnet manager ", port.master_guid, now.master_guid),
            ("network ", port.network, now.network),
        ):
            if was != is_:
                yield f"{name}: {what}{was or '-'} → {is_ or '-'}"


def _weights_words(
    old: tuple[WeightsHeld, ...] | None, new: tuple[WeightsHeld, ...] | None
) -> Iterator[str]:
    """Say which weights came and which went; a set that is not whole is none."""
    if old is None or new is None:
        return
    before, after = _whole(old), _whole(new)
    came = [name for key, name in after.items() if key not in before]
    went = [name for key, name in before.items() if key not in after]
    if came:
        yield f"weights came: {some(came)}"
    if went:
        yield f"weights went: {some(went)}"


def _whole(weights: tuple[WeightsHeld, ...]) -> dict[str, str]:
    return {one.name: one.model or one.name for one in weights if one.complete is not False}


def _warning_words(
    old: tuple[NodeWarning, ...] | None, new: tuple[NodeWarning, ...] | None
) -> Iterator[str]:
    """Say what a person should know now, and what no longer."""
    if old is None or new is None:
        return
    for warning in new:
        if warning not in old:
            yield f"{warning.subject}: {warning.words}"
    for warning in old:
        if warning not in new:
            yield f"{warning.subject}: no longer: {warning.words}"


def _count_words(
    what: str, old: tuple[object, ...] | None, new: tuple[object, ...] | None
) -> Iterator[str]:
    if old is not None and new is not None and len(old) != len(new):
        yield f"{what}: {len(old)} → {len(new)}"


def _nvlink_words(old: Inventory, new: Inventory) -> Iterator[str]:
    before, after = old.nvlink_domain, new.nvlink_domain
    if before is None or after is None or before == after:
        return
    yield (
        f"NVLink domain {before.cluster_uuid or '-'}/{before.clique_id} → "
        f"{after.cluster_uuid or '-'}/{after.clique_id}"
    )
