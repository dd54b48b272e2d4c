"""One node as text, section by section: what it has, how it is, and what is wrong with it."""

from collections.abc import Mapping, Sequence

from llmgw.base.units import show_bytes, show_seconds
from llmgw.cli import show
from llmgw.cli.output import ABSENT, Column, fields, table
from llmgw.fabric.managers import unknown_managers
from llmgw.model.availability import FREE, HELD, availability, holders
from llmgw.model.condition import (
    conditions,
    names_of,
    port_faults,
    port_network,
    with_cards,
)
from llmgw.model.device import MIG, Device, DeviceSample
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw.model.node import READY, Filesystem, Heartbeat, Node, ProbeState, Sample, Sensor
from llmgw.model.probes import by_trouble, probe_fact
from llmgw.model.replica import Replica
from llmgw.model.trouble import of_machine
from llmgw.model.work import POWER, SM_ACTIVE, work

MARK = "! "
"""Before what a person should look at: it needs no colour."""
_WORK_OF = {SM_ACTIVE: "SMs active", POWER: "draw of limit"}


def page(node: Node, sample: Sample | None, replicas: Sequence[Replica], now: float) -> list[str]:
    """Return the lines of a node's page.

    Args:
        node: it.
        sample: its last heartbeat; of a node that is not heard it says nothing about now.
        replicas: those with a shard on it.
        now: seconds since the epoch.
    """
    beat = sample.heartbeat if sample is not None and node.liveness == READY else None
    inventory = node.inventory
    lines = _head(node, sample if beat is not None else None, now)
    lines += _titled("Devices", _devices(node, beat, replicas))
    lines += _titled("Condition", _condition(node, beat, now))
    ports = (beat.ports if beat else None) or inventory.ports or ()
    lines += _titled("Ports", table(ports, _PORTS, wide=False) if ports else [])
    lines += _titled("Fabrics", _fabrics(inventory.subnet_managers, ports, inventory.nvlink_domain))
    disks = (beat.filesystems if beat else None) or inventory.filesystems or ()
    lines += _titled("Disks", _disks(disks, shared=False))
    lines += _titled("Shared storage", _disks(disks, shared=True))
    lines += _titled("Engines", [show.engine(one) for one in inventory.engines or ()])
    lines += _titled("Replicas", [_replica(one) for one in replicas])
    lines += _titled("Sensors", _sensors(beat.sensors or ()) if beat else [])
    probes = by_trouble((beat.probes or ()) if beat else ())
    lines += _titled("Probes", table(probes, _PROBES, wide=False) if probes else [])
    return lines


def _head(node: Node, sample: Sample | None, now: float) -> list[str]:
    host = node.inventory.host
    beat = sample.heartbeat if sample else None
    load = show.number(beat.load_average if beat else None, digits=2)
    heard = "" if node.last_heard is None else f", last heard {show.age(node.last_heard, now)} ago"
    pairs = [
        ("node", node.id),
        ("state", f"{show.node_state(node)} for {show.age(node.since, now)}{heard}"),
        *(("health" if not index else "", f"{MARK}{words}") for index, words in _numbered(node)),
        ("address", node.address or ""),
        ("agent", node.agent_version or ""),
        ("labels", ", ".join(f"{name}={value}" for name, value in node.labels.items())),
        ("certificate", _ends(node.certificate_ends, now)),
    ]
    if host is not None:
        system = " ".join(text for text in (host.os, host.kernel, host.architecture) if text)
        pairs += [
            ("system", system),
            ("cpu", f"{show.text(host.cpus)} x {show.text(host.cpu_model)}"),
            ("nvidia", _driver(host.nvidia_driver, host.cuda_version)),
            ("bandwidth", _bandwidth(host.mem_bandwidth_gbs, host.mem_bandwidth_core_gbs)),
        ]
    pairs += [
        ("cpu use", f"{show.percent(beat.cpu_percent if beat else None)}, load {load}"),
        ("memory", show.memory(node, sample)),
    ]
    return fields(pairs)


def _numbered(node: Node) -> list[tuple[int, str]]:
    """Return what is wrong with a node; of its devices alone which: the rest stands with them."""
    sick = [device for device in node.inventory.devices or () if device.unhealthy]
    which = (f"{names_of(sick)}: out of order, see Condition",) if sick else ()
    return list(enumerate((*of_machine(node), *which)))


def _driver(driver: str | None, cuda: str | None) -> str:
    return f"driver {driver or ABSENT}, CUDA {cuda or ABSENT}" if driver or cuda else ""


def _bandwidth(whole: float | None, core: float | None) -> str:
    if whole is None and core is None:
        return ""
    return f"{show.number(whole)} GB/s of memory, {show.number(core)} GB/s of one core"


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *lines] if lines else []


class _Row:
    """One device with its readings."""

    def __init__(
        self, node: Node, device: Device, reading: DeviceSample | None, holder: str, cut: int
    ) -> None:
        self.node = node
        self.device = device
        self.reading = reading
        self.holder = holder
        self.cut = cut

    def state(self) -> str:
        """Return whether it can be given out; of one in use also that it is unhealthy."""
        if self.cut:
            return "unhealthy" if self.device.unhealthy else f"cut in {self.cut}"
        found = availability(self.device, self.node, self.reading, held=bool(self.holder))
        if found == HELD:
            return "unhealthy" if self.device.unhealthy else "in use"
        if found == FREE and self.device.unhealthy is None:
            return "free?"
        return found

    def memory(self) -> str:
        """Return memory used of memory there; of unified memory there is the machine's alone."""
        used = self.reading.memory_used_bytes if self.reading else None
        total = (
            self.reading.memory_total_bytes if self.reading else None
        ) or self.device.memory_bytes
        text = ABSENT if used is None and total is None else f"{_gb(used)} of {_gb(total)} GB"
        return f"{text}, unified" if self.device.unified else text

    def work(self) -> str:
        """Return how much it works, and what that was made of."""
        done = work(self.reading) if self.reading else None
        if done is None:
            return ABSENT
        return f"{show.percent(done.ratio * 100)} ({_WORK_OF[done.source]})"

    def busy(self) -> str:
        """Return the share of time in which any kernel ran."""
        return show.percent(self.reading.busy_percent if self.reading else None)

    def heat(self) -> str:
        """Return its temperature, and its memory's where that is told."""
        if self.reading is None or self.reading.temperature_celsius is None:
            return ABSENT
        memory = self.reading.memory_temperature_celsius
        return show.number(self.reading.temperature_celsius, "°C") + (
            "" if memory is None else f", memory {show.number(memory, '°C')}"
        )

    def power(self) -> str:
        """Return its draw and its limit."""
        draw = self.reading.power_watts if self.reading else None
        limit = self.reading.power_limit_watts if self.reading else None
        if draw is None and limit is None:
            return ABSENT
        of_limit = "" if limit is None else f" of {show.number(limit)}"
        return f"{show.number(draw)}{of_limit} W"


_DEVICES: tuple[Column[_Row], ...] = (
    Column("DEVICE", lambda row: row.device.shown),
    Column("CLASS", lambda row: show.text(row.device.device_class or row.device.name)),
    Column("STATE", _Row.state),
    Column("MEMORY", _Row.memory, right=True),
    Column("BUSY", _Row.busy, right=True),
    Column("WORK", _Row.work, right=True),
    Column("HEAT", _Row.heat, right=True),
    Column("POWER", _Row.power, right=True),
    Column("HELD BY", lambda row: show.text(row.holder)),
)


def _devices(node: Node, beat: Heartbeat | None, replicas: Sequence[Replica]) -> list[str]:
    if node.inventory.devices is None:
        return ["this node cannot say"]
    readings = {one.uuid: one for one in (beat.devices or ())} if beat else {}
    held = holders(node, replicas)
    found = with_cards(node.inventory.devices)
    rows = [
        _Row(
            node,
            device,
            readings.get(device.uuid),
            held.get(device.uuid, ""),
            sum(one.card_uuid == device.uuid for one in found),
        )
        for device in found
    ]
    return table(rows, _DEVICES, wide=False) if rows else []


def _condition(node: Node, beat: Heartbeat | None, now: float) -> list[str]:
    """Return what is wrong with each device, then what is in order, alike devices together."""
    wrong: dict[str, list[Device]] = {}
    calm: dict[str, list[Device]] = {}
    for device, facts in conditions(node.inventory, beat, now=now, ages=show_seconds):
        for fact in facts:
            if fact.wrong:
                wrong.setdefault(f"{MARK}{fact.words}", []).append(device)
        if device.kind != MIG:
            words = ", ".join(fact.words for fact in facts if not fact.wrong)
            calm.setdefault(words, []).append(device)
    return fields(
        [
            (names_of(devices), words or "nothing told of wear and faults")
            for words, devices in (*wrong.items(), *calm.items())
        ]
    )


def _port_state(port: Port) -> str:
    said = (port.state or "", port.physical_state or "")
    return ", ".join(word.lower() for word in said if word and word != "LinkUp") or ABSENT


_PORTS: tuple[Column[Port], ...] = (
    Column("PORT", lambda port: f"{port.adapter}/{port.number}"),
    Column("STATE", _port_state),
    Column("RATE", lambda port: _rate(port.rate), right=True),
    Column("LINK", lambda port: " ".join(t for t in (port.link_layer, port.interface) if t) or "-"),
    Column("NETWORK", lambda port: port_network(port) or ABSENT),
    Column("ERRORS", lambda port: ", ".join(port_faults(port)) or _no_faults(port)),
)


def _no_faults(port: Port) -> str:
    return ABSENT if port.counters is None else "none"


def _rate(rate: int | None) -> str:
    return ABSENT if rate is None else show.number(rate / 1e9, " Gb/s")


def _fabrics(
    managers: Sequence[SubnetManager] | None, ports: Sequence[Port], domain: NvlinkDomain | None
) -> list[str]:
    pairs = [("subnet manager", _manager(one)) for one in managers or ()]
    pairs += [("subnet managers", words) for words in unknown_managers(managers, ports)]
    if domain is not None:
        runs = {True: "nvidia-imex runs", False: "nvidia-imex does not run", None: ""}
        channels = domain.imex_channels
        count = "" if channels is None else f"channels: {', '.join(channels) or 'none'}"
        name = f"{domain.cluster_uuid}/{domain.clique_id}" if domain.cluster_uuid else ABSENT
        words = (name, runs[domain.imex_running], count)
        pairs.append(("NVLink domain", ", ".join(word for word in words if word)))
    return fields(pairs)


def _manager(seen: SubnetManager) -> str:
    parts = [seen.guid, seen.state or "state not known"]
    parts += [] if seen.priority is None else [f"priority {seen.priority}"]
    parts += [] if seen.lid is None else [f"lid {seen.lid}"]
    parts += [] if seen.adapter is None else [f"seen through {seen.adapter}"]
    return ", ".join(parts)


def _disks(disks: Sequence[Filesystem], *, shared: bool) -> list[str]:
    return fields([(one.mount, _space(one)) for one in disks if bool(one.shared) == shared])


def _space(disk: Filesystem) -> str:
    free, total = show_bytes(disk.free_bytes), show_bytes(disk.total_bytes)
    return f"{free} free of {total}, {disk.type or 'unknown type'}"


def _replica(seen: Replica) -> str:
    words = show.replica_words(seen)
    on = show.back_end(seen)
    state = show.text(seen.state) + ("" if on == show.text(None) else f" on {on}")
    return f"{seen.id}: {state}" + (f", {words}" if words else "")


def _sensors(sensors: Sequence[Sensor]) -> list[str]:
    units: Mapping[str, str] = {"temperature": "°C", "power": " W"}
    return fields(
        [
            (one.label, show.number(one.value, units.get(one.kind, "")))
            for one in sorted(sensors, key=lambda one: one.label)
        ]
    )


def _probe_state(probe: ProbeState) -> str:
    if probe_fact(probe, show_seconds).wrong:
        return f"{MARK}fails"
    return "fine" if probe.age is not None else "no data"


def _ago(age: float | None) -> str:
    return "never" if age is None else f"{show_seconds(age)} ago"


_PROBES: tuple[Column[ProbeState], ...] = (
    Column("PROBE", lambda probe: probe.name),
    Column("STATE", _probe_state),
    Column("LAST READ", lambda probe: _ago(probe.age), right=True),
    Column("EACH", lambda probe: show_seconds(probe.period), right=True),
    Column("FAILS FOR", lambda probe: show_seconds(probe.failing), right=True),
    Column("LAST ERROR", lambda probe: probe.error or ABSENT),
)


def _ends(ends: float | None, now: float) -> str:
    return "" if ends is None else f"ends in {show_seconds(max(0.0, ends - now))}"


def _gb(count: int | None) -> str:
    return ABSENT if count is None else show.number(count / 1e9)
