"""Sums over all nodes of a scrape, added up node by node."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from llmgw.control.metrics.onenode import OneNode
from llmgw.fabric.managers import still_seen
from llmgw.model.availability import FREE, HELD, availability, given_out
from llmgw.model.device import Device, DeviceSample
from llmgw.model.fabric import Port
from llmgw.model.node import WeightsHeld
from llmgw.model.work import work
from llmgw.plan.placement.room import Space

UNKNOWN = "unknown"

_PARTS = "-mig-"
"""In the class of an instance this stands behind the class of its card."""


class Tally:
    """Devices by class, fabrics, nodes by state. Counts; bytes; watts; ratios are sums of 0-1.

    Attributes:
        nodes, wishes: how many nodes, by liveness and by wish.
        unhealthy_nodes: nodes with a reason why something is wrong with them.
        devices, in_use, unhealthy, free: devices by class.
        unavailable: those that are neither in use nor free, by class and reason.
        busy, work: sum and number of the readings, by class, and by class and source.
        watts: draw by class.
        fabrics: what was seen of each fabric.
    """

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()
        self.wishes: Counter[str] = Counter()
        self.unhealthy_nodes = 0
        self.devices: Counter[str] = Counter()
        self.in_use: Counter[str] = Counter()
        self.unhealthy: Counter[str] = Counter()
        self.free: Counter[str] = Counter()
        self.unavailable: Counter[tuple[str, str]] = Counter()
        self.busy: defaultdict[str, Mean] = defaultdict(Mean)
        self.work: defaultdict[tuple[str, str], Mean] = defaultdict(Mean)
        self.watts: dict[str, float] = {}
        self.fabrics: defaultdict[str, FabricSeen] = defaultdict(FabricSeen)

    def add(self, one: OneNode) -> None:
        """Add a node."""
        node = one.room.node
        self.nodes[node.liveness or UNKNOWN] += 1
        self.unhealthy_nodes += bool(node.health)
        if node.wish is not None:
            self.wishes[node.wish] += 1
        self._add_devices(one)
        self._add_fabrics(one)

    def _add_devices(self, one: OneNode) -> None:
        node = one.room.node
        known = {device.uuid: device for device in node.inventory.devices or ()}
        if not known:
            return
        space = Space(one.room, set())
        held = space.holders()
        readings = {reading.uuid: reading for _, reading in one.readings}
        # Placement looks at the last readings however old they are.
        last = {reading.uuid: reading for reading in one.room.readings or ()}
        for device in given_out(known.values()):
            name = class_of(device)
            self.devices[name] += 1
            self.unhealthy[name] += bool(device.unhealthy)
            self._add_verdict(
                name,
                availability(device, node, last.get(device.uuid), held=device.uuid in held),
            )
            reading = readings.get(device.uuid)
            if reading is not None:
                self._add_reading(name, reading)
        for card in one.cut & readings.keys():
            self._add_watts(_class_of_card(card, known), readings[card])

    def _add_verdict(self, name: str, verdict: str) -> None:
        self.in_use[name] += verdict == HELD
        if verdict == FREE:
            self.free[name] += 1
        elif verdict != HELD:
            self.unavailable[name, verdict] += 1

    def _add_reading(self, name: str, reading: DeviceSample) -> None:
        if reading.busy_percent is not None:
            self.busy[name].add(reading.busy_percent / 100)
        self._add_watts(name, reading)
        done = work(reading)
        if done is not None:
            self.work[name, done.source].add(done.ratio)

    def _add_watts(self, name: str, reading: DeviceSample) -> None:
        if reading.power_watts is not None:
            self.watts[name] = self.watts.get(name, 0.0) + reading.power_watts

    def _add_fabrics(self, one: OneNode) -> None:
        if not one.there:
            return
        inventory = one.room.node.inventory
        # Before the first heartbeat the node has told of its ports as it registered.
        ports = (inventory.ports if one.beat is None else one.beat.ports) or ()
        for port in ports:
            name = fabric_of(port)
            if name is not None:
                self.fabrics[name].take_port(one.id, port, inventory.weights or ())
        for manager in still_seen(inventory.subnet_managers or (), ports):
            if manager.master_guid is not None:
                self.fabrics[manager.master_guid].managers[manager.guid] = manager.state


class Mean:
    """A mean in the making."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        """Take one more value into it."""
        self.count += 1
        self.total += value

    @property
    def value(self) -> float | None:
        """Return it; None of nothing."""
        return self.total / self.count if self.count else None


class FabricSeen:
    """One fabric, as nodes see it from their ports."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.managers: dict[str, str | None] = {}
        """State by GUID."""
        self.masters: set[str] = set()
        """GUIDs that ports see as master."""
        self.weights: dict[str, int] = {}
        """Bytes of each set of weights that a node on it holds whole."""

    def take_port(self, node: str, port: Port, weights: tuple[WeightsHeld, ...]) -> None:
        """Note a port that is on it and what its node holds."""
        self.nodes.add(node)
        if port.master_guid is not None:
            self.masters.add(port.master_guid)
        for held in weights:
            if held.complete is not False and held.size_bytes is not None:
                self.weights[held.name] = max(self.weights.get(held.name, 0), held.size_bytes)

    @property
    def all_masters(self) -> set[str]:
        """Return the GUIDs of all that are or call themselves its master."""
        return self.masters | {guid for guid, state in self.managers.items() if state == "master"}


def _class_of_card(card: str, known: Mapping[str, Device]) -> str:
    """Return the class of a card that is cut; agents may list its instances alone."""
    if card in known:
        return class_of(known[card])
    parts = (device for device in known.values() if device.card_uuid == card)
    return next((class_of(one).partition(_PARTS)[0] for one in parts), UNKNOWN)


def class_of(device: Device) -> str:
    """Return the class under which a device is counted."""
    return device.device_class or UNKNOWN


def fabric_of(port: Port) -> str | None:
    """Return the fabric that a port is on; None of one that is on none or can't say.

    Its master subnet manager's GUID, or the IP network of a RoCE port.
    """
    return port.master_guid or port.network
