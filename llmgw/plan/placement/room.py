"""What is free on each node: the snapshot, less what this plan has booked already.

Plain slots classes: a pass looks at every node for every kind of request.
"""

from collections.abc import Iterable, Mapping, Sequence

from llmgw.model.availability import is_instance, spread
from llmgw.model.device import Device, ForeignProcess
from llmgw.model.node import Node
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.placement.links import slow_links
from llmgw.plan.records import Booking, NodeRoom, Observed


class Space:
    """One node and what is held on it.

    Invariants: a device that any booking names is never free, nor is the card of an instance that
    is held, nor an instance of a card that is held. A booking that nobody can describe (no model)
    and that names no device holds them all, and its memory and cores count as all there is.
    """

    __slots__ = ("_free", "bookings", "cores", "foreign", "leaving", "links", "memory", "models",
                 "node", "unknown", "weights")  # fmt: skip

    def __init__(self, room: NodeRoom, leaving: set[str]) -> None:
        self.node: Node = room.node
        self.leaving = leaving
        """Replicas that are being stopped, on any node; shared by all spaces of a room."""
        self.bookings: list[Booking] = []
        self.memory = 0
        """Bytes of host memory that are booked."""
        self.cores = 0
        self.unknown: str | None = None
        """A replica of which nobody can say what it uses."""
        self.models: dict[str, int] = {}
        """How many shards of each model are here."""
        self.weights = frozenset(
            held.name for held in self.node.inventory.weights or () if held.complete is not False
        )
        self.foreign = _strangers(room)
        """By device, the processes that keep it; one that only draws does not."""
        self.links = slow_links(self.node.inventory.devices or ())
        """Devices with a slow PCIe link; they are given out last."""
        self._free: dict[str, tuple[Device, ...]] | None = None
        for booking in room.bookings:
            self.book(booking)

    def book(self, booking: Booking) -> None:
        """Hold what a shard is given."""
        self.bookings.append(booking)
        self.memory += booking.memory_bytes or 0
        self.cores += booking.cpu_cores or 0
        if booking.model is None:
            self.unknown = booking.replica
        else:
            self.models[booking.model] = self.models.get(booking.model, 0) + 1
        self._free = None

    def without(self, replica: str) -> "Space":
        """Return the node as it would be without a replica."""
        kept = tuple(booking for booking in self.bookings if booking.replica != replica)
        other = Space(NodeRoom(node=self.node, bookings=kept), self.leaving)
        other.foreign = self.foreign
        return other

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

    def free(self) -> dict[str, tuple[Device, ...]]:
        """Return the devices that can be given out now, by class: by link, then by number."""
        if self._free is None:
            self._free = self._find_free()
        return self._free

    def _find_free(self) -> dict[str, tuple[Device, ...]]:
        held = self.holders() if self.bookings else {}
        found: dict[str, list[Device]] = {}
        for device in self.node.inventory.devices or ():
            if (
                device.uuid not in held
                and device.uuid not in self.foreign
                and not device.unhealthy
                and (not device.mig_enabled or is_instance(device))
            ):
                found.setdefault(device.device_class or "", []).append(device)
        return {name: tuple(sorted(devices, key=self._order)) for name, devices in found.items()}

    def _order(self, device: Device) -> tuple[float, int, str]:
        return (-self.links.get(device.uuid, 1.0), *by_number(device))


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
        self.rankings: dict[object, object] = {}
        """Kept by `rank` between two placements of one plan."""
        rooms = sorted(observed.nodes, key=lambda room: room.node.id)
        unreported = _unreported(rooms, observed.replicas)
        self.spaces = {room.node.id: Space(room, self.leaving) for room in rooms}
        for node, booking in unreported:
            self.spaces[node].book(booking)
        self._holding: dict[str, list[str]] = {}
        for space in self.spaces.values():
            for name in space.weights:
                self._holding.setdefault(name, []).append(space.node.id)
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

    def holding(self, weights: str | None) -> Sequence[str]:
        """Return the nodes that hold weights of that name."""
        return self._holding.get(weights, ()) if weights is not None else ()

    def running(self, model: str) -> Iterable[str]:
        """Return the nodes on which a shard of a model is."""
        return self._running.get(model, ())


def _strangers(room: NodeRoom) -> Mapping[str, tuple[ForeignProcess, ...]]:
    found = (
        (reading.uuid, tuple(one for one in reading.foreign or () if not one.only_draws))
        for reading in room.readings or ()
    )
    return {uuid: strangers for uuid, strangers in found if strangers}


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
