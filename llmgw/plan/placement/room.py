"""What is free on each node: the snapshot, less what this plan has booked already.

Plain slots classes: a pass looks at every node for every kind of request.
"""

from collections.abc import Iterable, Sequence

import msgspec

from llmgw.model.availability import foreign_bytes, is_foreign, is_instance, spread
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Node, WeightsHeld
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.placement.ailing import ailing
from llmgw.plan.placement.links import slow_links
from llmgw.plan.records import Booking, NodeRoom, Observed


class Space:
    """One node and what is held on it.

    Invariants: a device that any booking names is never free, nor is the card of an instance that
    is held, nor an instance of a card that is held. A booking that nobody can describe (no model)
    and that names no device holds them all, and its memory and cores count as all there is.
    """

    __slots__ = ("_free", "ailing", "asked", "bookings", "chosen", "cores", "fetching", "foreign",
                 "leaving", "links", "memory", "models", "node", "room", "taken", "unknown",
                 "unknown_memory", "weights")  # fmt: skip

    def __init__(self, room: NodeRoom, leaving: set[str]) -> None:
        self.room = room
        """The node as it was observed: what this plan booked is not in it."""
        self.node: Node = room.node
        self.leaving = leaving
        """Replicas that are being stopped, on any node; shared by all spaces of a room."""
        self.bookings: list[Booking] = []
        self.memory = 0
        """Bytes of host memory that are booked."""
        self.asked = 0
        """Bytes of host memory that wait to be asked for, and are not held by whoever asks."""
        self.cores = 0
        self.unknown: str | None = None
        """A replica of which nobody can say what it uses."""
        self.unknown_memory: str | None = None
        """A replica on a device that has no memory but the machine's: how much is not known."""
        self.models: dict[str, int] = {}
        """How many shards of each model are here."""
        self.fetching: dict[str, int] = {}
        """Weights that shards there are yet to fetch, in bytes, by name."""
        inventory = room.node.inventory
        self.weights = _held(inventory.weights) if inventory.weights else _NOTHING
        self.foreign = _foreign(room.readings) if room.readings else _NOTHING
        """Devices that others keep, unless a booking names them."""
        self.ailing = ailing(room.readings or (), room.health or ())
        """Sick and throttling devices; they are given out last."""
        self.links = slow_links(inventory.devices or ())
        """Devices with a slow PCIe link; they are given out last."""
        self.chosen: tuple[object, Sequence[str]] = (None, ())
        """The last request that was asked for its classes, and the answer; kept by `devices`."""
        self._free: dict[int | None, dict[str, tuple[Device, ...]]] = {}
        self.taken: dict[object, tuple[Device, ...]] = {}
        """What requests of one kind would take; kept by `devices` until something is booked."""
        for booking in room.bookings:
            self.book(booking)

    def book(self, booking: Booking) -> None:
        """Hold what a shard is given."""
        self.bookings.append(booking)
        self.memory += booking.memory_bytes or 0
        self.asked = max(self.asked, booking.asks_bytes or 0)
        self.cores += booking.cpu_cores or 0
        if booking.weights is not None and booking.weights not in self.weights:
            self.fetching[booking.weights] = booking.disk_bytes or 0
        if booking.model is None:
            self.unknown = booking.replica
        else:
            self.models[booking.model] = self.models.get(booking.model, 0) + 1
        if booking.memory_bytes is None and booking.devices and self._unified(booking.devices):
            self.unknown_memory = booking.replica
        self._free = {}
        self.taken = {}
        self.chosen = (None, ())

    def without(self, *replicas: str) -> "Space":
        """Return the node as it would be without some replicas.

        The memory that is used on their devices goes with them; other processes there stay.
        """
        gone = set(replicas)
        freed = {uuid for one in self.bookings if one.replica in gone for uuid in one.devices}
        readings = self.room.readings and tuple(
            msgspec.structs.replace(one, memory_used_bytes=None) if one.uuid in freed else one
            for one in self.room.readings
        )
        kept = tuple(one for one in self.bookings if one.replica not in gone)
        room = msgspec.structs.replace(self.room, bookings=kept, readings=readings)
        return Space(room, self.leaving)

    def holders(self) -> dict[str, str]:
        """Return who holds each device, by UUID: a replica's id."""
        devices = self.node.inventory.devices or ()
        named = {uuid: booking.replica for booking in self.bookings for uuid in booking.devices}
        held = spread(named, devices)
        for booking in self.bookings:
            if booking.model is None and not booking.devices:
                for device in devices:
                    held.setdefault(device.uuid, booking.replica)
        return held

    def free(self, need: int | None = None) -> dict[str, tuple[Device, ...]]:
        """Return the devices that can be given out now, by class, in the order they are given out.

        Sick and throttling ones come last, then those with a slow link, then higher numbers.

        Args:
            need: bytes of memory that must be free on each; None: not known.
        """
        found = self._free.get(need)
        if found is None:
            found = self._find_free() if need is None else self._with_memory(need)
            self._free[need] = found
        return found

    def reading(self, device: Device) -> DeviceSample | None:
        """Return the last readings of a device: of one that nobody holds, what others do there."""
        return next((one for one in self.room.readings or () if one.uuid == device.uuid), None)

    def memory_of(self, device: Device) -> int | None:
        """Return all memory that a device computes in; None when it is not known."""
        if device.memory_bytes is not None:
            return device.memory_bytes
        reading = self.reading(device)
        if reading is not None and reading.memory_total_bytes is not None:
            return reading.memory_total_bytes
        host = self.node.inventory.host
        return host.memory_bytes if device.unified and host is not None else None

    def memory_left(self, device: Device) -> int | None:
        """Return what others leave of the memory of a device that nobody holds.

        None when it is not known how much it has; what nobody measured is not taken.
        """
        total = self.memory_of(device)
        if total is None:
            return None
        reading = self.reading(device)
        taken = (foreign_bytes(reading) if reading is not None else None) or 0
        booked = self.memory if device.unified and device.memory_bytes is None else 0
        return max(0, total - taken - booked)

    def _find_free(self) -> dict[str, tuple[Device, ...]]:
        held = self.holders() if self.bookings else {}
        foreign = self.foreign
        found: dict[str, list[Device]] = {}
        last, in_order = -1, not self.links and not self.ailing
        for device in self.node.inventory.devices or ():
            uuid = device.uuid
            if uuid in held or uuid in foreign or device.unhealthy:
                continue
            if device.mig_enabled and not is_instance(device):
                continue
            name, number = device.device_class or "", device.number
            if number is None or number < last:
                in_order = False
            else:
                last = number
            if name in found:
                found[name].append(device)
            else:
                found[name] = [device]
        if in_order:
            return {name: tuple(devices) for name, devices in found.items()}
        return {name: tuple(sorted(devices, key=self._order)) for name, devices in found.items()}

    def _with_memory(self, need: int) -> dict[str, tuple[Device, ...]]:
        found: dict[str, tuple[Device, ...]] = {}
        for name, devices in self.free().items():
            enough = tuple(one for one in devices if self._has(one, need))
            if enough:
                found[name] = enough
        return found

    def _has(self, device: Device, need: int) -> bool:
        left = self.memory_left(device)
        return left is None or left >= need

    def _order(self, device: Device) -> tuple[int, float, int, str]:
        uuid = device.uuid
        return (-self.ailing.get(uuid, 100), -self.links.get(uuid, 1.0), *by_number(device))

    def _unified(self, uuids: Iterable[str]) -> bool:
        wanted = set(uuids)
        return any(
            device.unified and device.uuid in wanted for device in self.node.inventory.devices or ()
        )


_NOTHING: frozenset[str] = frozenset()


def _held(weights: Iterable[WeightsHeld]) -> frozenset[str]:
    return frozenset(held.name for held in weights if held.complete is not False)


def _foreign(readings: Iterable[DeviceSample]) -> frozenset[str]:
    """Return the devices that others keep. Most readings show at once that nobody does."""
    found = []
    for one in readings:
        used = one.memory_used_bytes
        quiet = not one.foreign and (not used or used * 16 < (one.memory_total_bytes or 0))
        if not quiet and is_foreign(one):
            found.append(one.uuid)
    return frozenset(found) if found else _NOTHING


class Room:
    """All nodes of one plan. What is booked here stays booked for the rest of the plan.

    Args:
        observed: the snapshot.
        leaving: replicas that are being stopped; what they hold is held until they are gone.
    """

    def __init__(self, observed: Observed, leaving: Iterable[str] = ()) -> None:
        self.leaving = set(leaving)
        self.booked: list[str] = []
        """The nodes that were booked on since the snapshot, in order: what rankings look at."""
        self.kept: dict[object, object] = {}
        """What is worked out once a plan and kept between two placements, by whoever did."""
        rooms = sorted(observed.nodes, key=lambda room: room.node.id)
        unreported = _unreported(rooms, observed.replicas)
        self.spaces = {room.node.id: Space(room, self.leaving) for room in rooms}
        for node, booking in unreported:
            self.spaces[node].book(booking)
        self._holding: dict[str, dict[str, None]] = {}
        for space in self.spaces.values():
            for name in (*space.weights, *space.fetching):
                self._holding.setdefault(name, {})[space.node.id] = None
        self._running: dict[str, dict[str, None]] = {}
        for space in self.spaces.values():
            for model in space.models:
                self._running.setdefault(model, {})[space.node.id] = None

    def book(self, node: str, booking: Booking) -> None:
        """Hold what one shard is given on a node."""
        self.spaces[node].book(booking)
        self.booked.append(node)
        if booking.model is not None:
            self._running.setdefault(booking.model, {})[node] = None
        if booking.weights is not None:
            self._holding.setdefault(booking.weights, {})[node] = None

    def holding(self, weights: str | None) -> Iterable[str]:
        """Return the nodes that hold weights of that name, or are yet to fetch them."""
        return self._holding.get(weights, ()) if weights is not None else ()

    def running(self, model: str) -> Iterable[str]:
        """Return the nodes on which a shard of a model is."""
        return self._running.get(model, ())


def by_number(device: Device) -> tuple[int, str]:
    """Order devices by their number; those without one come last, by UUID."""
    return (1 << 30 if device.number is None else device.number, device.uuid)


def _unreported(
    rooms: Sequence[NodeRoom], replicas: Sequence[Replica]
) -> list[tuple[str, Booking]]:
    """Return what replicas hold that no booking names: a start that is not reported yet."""
    known = {
        (room.node.id, booking.replica, booking.rank) for room in rooms for booking in room.bookings
    }
    nodes = {room.node.id for room in rooms}
    return [
        (
            shard.node,
            Booking(
                replica=replica.id,
                rank=shard.rank,
                model=replica.model,
                devices=shard.devices,
                memory_bytes=shard.memory_bytes,
                cpu_cores=shard.cpu_cores,
            ),
        )
        for replica in replicas
        for shard in replica.shards
        if shard.node in nodes
        and shard.state not in {STOPPED, FAILED}
        and (shard.node, replica.id, shard.rank) not in known
    ]
