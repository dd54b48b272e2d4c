"""What changed of what a node has, in words: why it now qualifies, or no longer does (INV-13).

Everything that placement's filters look at is told of: what came, what went, what became known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from llmgw.base.units import show_bytes
from llmgw.control.inventory import several_masters
from llmgw.model.condition import names_of
from llmgw.model.device import Device, NvlinkFabric, PciLink
from llmgw.model.fabric import NvlinkDomain, Port
from llmgw.model.node import (
    Filesystem,
    Host,
    InstalledEngine,
    Inventory,
    Node,
    NodeWarning,
    WeightsHeld,
)
from llmgw.model.trouble import named, named_together
from llmgw.plan.words import some

_OF_HOST: tuple[tuple[str, str, Callable[..., str]], ...] = (
    ("memory_bytes", "memory", show_bytes),
    ("cpus", "CPUs", str),
    ("kernel", "kernel", str),
    ("nvidia_driver", "NVIDIA driver", str),
    ("cuda_version", "CUDA", str),
)
"""Field, what people call it, and how its value is shown."""

_RUNS: Mapping[bool | None, str] = {
    True: "runs",
    False: "does not run",
    None: "is not seen any more",
}


def differences(old: Inventory, new: Inventory) -> tuple[str, ...]:
    """Return what changed in words: why a node now qualifies, or no longer does.

    That devices are well again is told apart: see `recovered`.
    """
    return (
        *_host_words(old.host, new.host),
        *_device_words(old.devices or (), new.devices or ()),
        *_engine_words(old.engines or (), new.engines or ()),
        *_engine_news(old, new),
        *_port_words(old.ports or (), new.ports or ()),
        *_master_words(old, new),
        *_weights_words(old.weights, new.weights),
        *_filesystem_words(old.filesystems, new.filesystems),
        *_nvlink_words(old.nvlink_domain, new.nvlink_domain),
        *_warning_words(old.warnings, new.warnings),
    )


def registered(old: Node, new: Node) -> tuple[str, ...]:
    """Return what an agent's new registration changed: labels, address, what it can be asked."""
    return (
        *(
            f"label {name}: {old.labels.get(name, '-')} → {new.labels.get(name, '-')}"
            for name in sorted({**old.labels, **new.labels})
            if old.labels.get(name) != new.labels.get(name)
        ),
        *((f"address {old.address or '-'} → {new.address}",) if old.address != new.address else ()),
        *_ability_words(old.features, new.features),
    )


def _ability_words(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> Iterator[str]:
    if old is None or new is None:
        return
    came = [name for name in new if name not in old]
    went = [name for name in old if name not in new]
    yield from _came_and_went("abilities of its agent", came, went)


def _host_words(old: Host | None, new: Host | None) -> Iterator[str]:
    """Say what changed of a machine; what becomes known may be what it was turned away for."""
    before, after = old or Host(), new or Host()
    for name, words, shown in _OF_HOST:
        was, is_ = getattr(before, name), getattr(after, name)
        if is_ is not None and was != is_:
            yield f"{words} {'-' if was is None else shown(was)} → {shown(is_)}"
    if after.cpu_extensions is not None and before.cpu_extensions is not None:
        came = sorted({*after.cpu_extensions} - {*before.cpu_extensions})
        went = sorted({*before.cpu_extensions} - {*after.cpu_extensions})
        yield from _came_and_went("CPU extensions", came, went)


def _came_and_went(what: str, came: Sequence[str], went: Sequence[str]) -> Iterator[str]:
    if came:
        yield f"{what} came: {some(came)}"
    if went:
        yield f"{what} went: {some(went)}"


def _device_words(old: tuple[Device, ...], new: tuple[Device, ...]) -> Iterator[str]:
    before = {device.uuid: device for device in old}
    after = {device.uuid: device for device in new}
    went = [device for uuid, device in before.items() if uuid not in after]
    yield from _alike(went, "is gone", "are gone")
    came = [device for uuid, device in after.items() if uuid not in before]
    yield from _alike(came, "is there now", "are there now")
    changed: dict[str, list[Device]] = {}
    for uuid, device in after.items():
        for words in _changes_of(before[uuid], device) if uuid in before else ():
            changed.setdefault(words, []).append(device)
    yield from _together(changed)


def recovered(old: Inventory, new: Inventory) -> tuple[str, ...]:
    """Return which devices are fine that were not: `gpu0-gpu7: fine`."""
    sick = {device.uuid for device in old.devices or () if device.unhealthy}
    well = [one for one in new.devices or () if one.uuid in sick and one.unhealthy == ()]
    return tuple(_together({"fine": well} if well else {}))


def _together(changed: Mapping[str, Sequence[Device]]) -> Iterator[str]:
    for words, devices in changed.items():
        yield f"{named_together(devices)}: {words}"


def _alike(devices: Sequence[Device], one: str, many: str) -> Iterator[str]:
    """Say of devices what happened to them, of those of one kind together."""
    kinds: dict[str | None, list[Device]] = {}
    for device in devices:
        kinds.setdefault(device.name or device.device_class, []).append(device)
    for what, alike in kinds.items():
        if len(alike) == 1:
            yield f"{named(alike[0])} {one}"
        else:
            kind = f" ({what})" if what else ""
            yield f"{names_of(alike)}{kind} {many}"


def _changes_of(old: Device, new: Device) -> Iterator[str]:
    for what, was, is_ in (
        ("class ", old.device_class, new.device_class),
        ("MIG mode ", _on(old.mig_enabled), _on(new.mig_enabled)),
        ("memory ", _size(old.memory_bytes), _size(new.memory_bytes)),
    ):
        if is_ is not None and was != is_:
            yield f"{what}{was or '-'} → {is_}"
    if old.unhealthy != new.unhealthy:
        if new.unhealthy:
            yield "; ".join(new.unhealthy)
        elif old.unhealthy and new.unhealthy is None:
            yield "it is not known any more whether it is fine"
    if old.pci is not None and new.pci is not None and _link(old.pci) != _link(new.pci):
        yield f"PCIe {_link(old.pci)} → {_link(new.pci)}"
    if old.nvlink is not None and new.nvlink is not None:
        before, after = _fabric(old.nvlink), _fabric(new.nvlink)
        if before != after:
            yield f"NVLink fabric {before} → {after}"


def _on(mode: bool | None) -> str | None:
    return None if mode is None else ("on" if mode else "off")


def _size(size: int | None) -> str | None:
    return None if size is None else show_bytes(size)


def _link(link: PciLink) -> str:
    generation, lanes = link.max_generation, link.lanes
    return f"generation {generation or '-'} with {lanes or '-'} lanes"


def _fabric(fabric: NvlinkFabric) -> str:
    """Return whether a device is joined to its NVLink fabric: `Completed, Success`."""
    return ", ".join(word for word in (fabric.state, fabric.status) if word) or "-"


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
    came: dict[str, list[str]] = {}
    changed: dict[str, list[str]] = {}
    for (adapter, number), port in after.items():
        name, old_one = f"{adapter}/{number}", before.get((adapter, number))
        if old_one is None:
            came.setdefault(port.state or "-", []).append(name)
        for words in () if old_one is None else _port_changes(old_one, port):
            changed.setdefault(words, []).append(name)
    for state, names in came.items():
        yield f"{_ports(names)} {_be(names)} there now: {state}"
    if went := [f"{which[0]}/{which[1]}" for which in before if which not in after]:
        yield f"{_ports(went)} {_be(went)} gone"
    yield from (f"{_ports(names)}: {words}" for words, names in changed.items())


def _ports(names: Sequence[str]) -> str:
    return f"port{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _be(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"


def _port_changes(old: Port, new: Port) -> Iterator[str]:
    for what, was, is_ in (
        ("", old.state, new.state),
        ("fabric ", old.fabric, new.fabric),
        ("master subnet manager ", old.master_guid, new.master_guid),
        ("network ", old.network, new.network),
    ):
        if was != is_:
            yield f"{what}{was or '-'} → {is_ or '-'}"


def _master_words(old: Inventory, new: Inventory) -> Iterator[str]:
    before = several_masters(old)
    yield from (words for words in several_masters(new) if words not in before)


def _weights_words(
    old: tuple[WeightsHeld, ...] | None, new: tuple[WeightsHeld, ...] | None
) -> Iterator[str]:
    """Say which weights came and which went; a set that is not whole is none."""
    if old is None or new is None:
        return
    before, after = _whole(old), _whole(new)
    came = [name for key, name in after.items() if key not in before]
    went = [name for key, name in before.items() if key not in after]
    yield from _came_and_went("weights", came, went)


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


def _filesystem_words(
    old: tuple[Filesystem, ...] | None, new: tuple[Filesystem, ...] | None
) -> Iterator[str]:
    if old is None or new is None:
        return
    before, after = ({one.mount: None for one in side} for side in (old, new))
    came = [mount for mount in after if mount not in before]
    went = [mount for mount in before if mount not in after]
    yield from _came_and_went("filesystems", came, went)


def _engine_news(old: Inventory, new: Inventory) -> Iterator[str]:
    """Say that a node knows its engines by now, and which it can install."""
    if old.engines_probed is False and new.engines_probed:
        yield "has looked for its engines"
    if old.can_install is not None and new.can_install is not None:
        before, after = old.can_install, new.can_install
        came = [engine for engine in after if engine not in before]
        went = [engine for engine in before if engine not in after]
        if came:
            yield f"can install {some(came)}"
        if went:
            yield f"can no longer install {some(went)}"


def _nvlink_words(old: NvlinkDomain | None, new: NvlinkDomain | None) -> Iterator[str]:
    """Say what changed of domain and nvidia-imex: either keeps the node's cards out of it."""
    if new is None:
        return
    before = old or NvlinkDomain()
    if _domain(before) != _domain(new):
        yield f"NVLink domain {_domain(before)} → {_domain(new)}"
    if before.imex_running != new.imex_running:
        yield f"nvidia-imex {_RUNS[new.imex_running]}"
    was, is_ = _count(before.imex_channels), _count(new.imex_channels)
    if was != is_:
        yield f"channels of nvidia-imex {was} → {is_}"


def _domain(domain: NvlinkDomain) -> str:
    if domain.cluster_uuid is None:
        return "-"
    clique = "-" if domain.clique_id is None else domain.clique_id
    return f"{domain.cluster_uuid}/{clique}"


def _count(channels: tuple[str, ...] | None) -> str:
    return "-" if channels is None else str(len(channels))
