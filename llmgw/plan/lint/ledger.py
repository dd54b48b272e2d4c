"""What is held on each node, and whether a start takes what is not free: each card once."""

from collections.abc import Iterator, Mapping

from llmgw.model.device import Device, DeviceSample
from llmgw.model.record import Problem
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.records import Assignment, Booking, NodeRoom, Observed

_MOST_SHARE = 0.1
"""Of a card's memory that others may have."""


class Ledger:
    """Devices, memory and cores of all nodes as they are, and as the plan gives them out."""

    def __init__(self, observed: Observed) -> None:
        self._holders: dict[tuple[str, str], str] = {}
        self._memory: dict[str, int] = {}
        self._cores: dict[str, int] = {}
        reported: set[tuple[str, str, int]] = set()
        for room in observed.nodes:
            for booking in room.bookings:
                reported.add((booking.replica, room.node.id, booking.rank))
                self._hold(room.node.id, booking)
        for replica in observed.replicas:
            for shard in replica.shards:
                key = (replica.id, shard.node, shard.rank)
                if key not in reported and shard.state not in {STOPPED, FAILED}:
                    self._hold(
                        shard.node,
                        Booking(
                            replica=replica.id,
                            rank=shard.rank,
                            devices=shard.devices,
                            memory_bytes=shard.memory_bytes,
                            cpu_cores=shard.cpu_cores,
                        ),
                    )

    def give(self, path: str, room: NodeRoom, one: Assignment) -> Iterator[Problem]:
        """Give one shard what it is assigned; yield what of it was not free."""
        yield from self._devices(path, room, one)
        yield from self._host(path, room, one)

    def _hold(self, node: str, booking: Booking) -> None:
        for uuid in booking.devices:
            self._holders[node, uuid] = booking.replica
        self._add(node, booking.memory_bytes, booking.cpu_cores)

    def _add(self, node: str, memory: int | None, cores: int | None) -> None:
        self._memory[node] = self._memory.get(node, 0) + (memory or 0)
        self._cores[node] = self._cores.get(node, 0) + (cores or 0)

    def _devices(self, path: str, room: NodeRoom, one: Assignment) -> Iterator[Problem]:
        node, spec = room.node.id, one.spec
        devices = {device.uuid: device for device in room.node.inventory.devices or ()}
        readings = {reading.uuid: reading for reading in room.readings or ()}
        yield from _mixed(path, node, [devices[uuid] for uuid in spec.devices if uuid in devices])
        for uuid in spec.devices:
            device = devices.get(uuid)
            if device is None:
                yield Problem(path=path, words=f"{node}: there is no device {uuid}")
                continue
            for other in (uuid, device.card_uuid, *_instances(uuid, devices)):
                holder = self._holders.get((node, other)) if other is not None else None
                if holder is not None:
                    yield Problem(path=path, words=f"{node}: {uuid} is held by {holder}")
            self._holders[node, uuid] = spec.replica
            if device.unhealthy:
                yield Problem(path=path, words=f"{node}: {uuid} is unhealthy")
            yield from _others(path, node, device, readings.get(uuid), one.device_memory_bytes)

    def _host(self, path: str, room: NodeRoom, one: Assignment) -> Iterator[Problem]:
        node, host = room.node.id, room.node.inventory.host
        self._add(node, one.spec.memory_bytes, one.spec.cpu_cores)
        total = host.memory_bytes if host is not None else None
        if one.spec.memory_bytes and total is not None and self._memory[node] > total:
            words = f"{node}: {self._memory[node]} of {total} bytes of memory are given out"
            yield Problem(path=path, words=words)
        cores = host.cpus if host is not None else None
        if one.spec.cpu_cores and cores is not None and self._cores[node] > cores:
            words = f"{node}: {self._cores[node]} of {cores} CPU cores are given out"
            yield Problem(path=path, words=words)


def _instances(card: str, devices: Mapping[str, Device]) -> Iterator[str]:
    for device in devices.values():
        if device.card_uuid == card:
            yield device.uuid


def _mixed(path: str, node: str, devices: list[Device]) -> Iterator[Problem]:
    classes = sorted({device.device_class or "?" for device in devices})
    if len(classes) > 1:
        words = f"{node}: devices of several classes are given together: {', '.join(classes)}"
        yield Problem(path=path, words=words)
    instances = sum(device.card_uuid is not None for device in devices)
    if instances and len(devices) > 1:
        yield Problem(path=path, words=f"{node}: {instances} MIG instances are given together")


def _others(
    path: str, node: str, device: Device, reading: DeviceSample | None, need: int | None
) -> Iterator[Problem]:
    """Yield what others have of a device that is given out, by its last readings."""
    uuid, total, taken = device.uuid, device.memory_bytes, 0
    if reading is not None:
        strangers = [one for one in reading.foreign or () if one.kind != "graphics"]
        if strangers:
            words = f"{node}: {uuid} is used by the process {strangers[0].pid}, not llmgw's"
            yield Problem(path=path, words=words)
        total = total or reading.memory_total_bytes
        theirs = sum(one.memory_bytes or 0 for one in reading.foreign or ())
        taken = max(theirs, reading.memory_used_bytes or 0)
        if not strangers and reading.memory_total_bytes and total and taken > _MOST_SHARE * total:
            words = f"{node}: {taken} of {total} bytes of {uuid} are used, not by llmgw"
            yield Problem(path=path, words=words)
    if need is not None and total is not None and taken + need > total:
        words = f"{node}: {uuid} has {total - taken} of {total} bytes free, {need} are needed"
        yield Problem(path=path, words=words)
