"""`check`: a lint over plans, run before each is carried out.

It shares nothing with what makes plans but the records: a mistake there has to be made twice to get
through. A plan with a problem is not carried out (invariant 3).
"""

from collections.abc import Iterator, Mapping

from llmgw.model.node import READY
from llmgw.model.record import Problem
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.records import (
    Assignment,
    Booking,
    Desired,
    NodeRoom,
    Observed,
    Plan,
    StartReplica,
    StopReplica,
)


def check(plan: Plan, desired: Desired, observed: Observed) -> tuple[Problem, ...]:
    """Return every problem of a plan, each with the step it is in; empty when it is sound."""
    return tuple(_Check(desired, observed).problems(plan))


class _Check:
    def __init__(self, desired: Desired, observed: Observed) -> None:
        self._desired = desired
        self._observed = observed
        self._rooms: Mapping[str, NodeRoom] = {room.node.id: room for room in observed.nodes}
        self._models = {
            (entry.model.name, profile.name)
            for entry in desired.models
            for profile in entry.model.profiles
        }
        self._there = {
            (replica.id, shard.node, shard.rank)
            for replica in observed.replicas
            for shard in replica.shards
        }
        self._there |= {
            (booking.replica, room.node.id, booking.rank)
            for room in observed.nodes
            for booking in room.bookings
        }
        self._known = {replica for replica, _, _ in self._there}
        self._held: dict[tuple[str, str], str] = {}
        self._memory: dict[str, int] = {}

    def problems(self, plan: Plan) -> Iterator[Problem]:
        if plan.steps and not self._observed.settled:
            yield Problem(path="steps", words="the fleet has not settled: nothing may be done yet")
        self._take_what_is_held()
        seen: set[str] = set()
        for number, step in enumerate(plan.steps):
            path = f"steps[{number}]"
            if step.replica in seen:
                yield Problem(path=path, words=f"{step.replica} is in the plan twice")
            seen.add(step.replica)
            match step:
                case StartReplica():
                    yield from self._start(path, step)
                case StopReplica():
                    yield from self._stop(path, step)

    def _take_what_is_held(self) -> None:
        reported: set[tuple[str, str, int]] = set()
        for room in self._observed.nodes:
            for booking in room.bookings:
                reported.add((booking.replica, room.node.id, booking.rank))
                self._hold(room.node.id, booking)
        for replica in self._observed.replicas:
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
                        ),
                    )

    def _hold(self, node: str, booking: Booking) -> None:
        for uuid in booking.devices:
            self._held[node, uuid] = booking.replica
        self._memory[node] = self._memory.get(node, 0) + (booking.memory_bytes or 0)

    def _start(self, path: str, step: StartReplica) -> Iterator[Problem]:
        if self._desired.settings.serving.stopped:
            yield Problem(path=path, words="starts something while the cluster is stopped")
        if (step.model, step.profile) not in self._models:
            yield Problem(path=path, words=f"{step.model} is not in the catalog")
        if step.replica in self._known:
            yield Problem(path=path, words=f"{step.replica} is there already")
        if not step.shards:
            yield Problem(path=path, words=f"{step.replica} has no shards")
        ranks = [one.spec.rank for one in step.shards]
        if sorted(ranks) != list(range(len(ranks))):
            yield Problem(path=path, words=f"{step.replica} has the ranks {ranks}")
        for one in step.shards:
            yield from self._shard(path, step, one)

    def _shard(self, path: str, step: StartReplica, one: Assignment) -> Iterator[Problem]:
        if one.spec.replica != step.replica:
            yield Problem(path=path, words=f"{step.replica} has a shard of {one.spec.replica}")
        room = self._rooms.get(one.node)
        if room is None:
            yield Problem(path=path, words=f"{one.node}: there is no such node")
            return
        node = room.node
        if node.liveness != READY:
            state = node.liveness or "not heard of yet"
            yield Problem(path=path, words=f"{node.id} is {state}")
        if node.wish is not None:
            yield Problem(path=path, words=f"{node.id} is {node.wish}")
        yield from self._devices(path, room, one)
        yield from self._host_memory(path, room, one)

    def _devices(self, path: str, room: NodeRoom, one: Assignment) -> Iterator[Problem]:
        node = room.node.id
        devices = {device.uuid: device for device in room.node.inventory.devices or ()}
        for uuid in one.spec.devices:
            device = devices.get(uuid)
            if device is None:
                yield Problem(path=path, words=f"{node}: there is no device {uuid}")
                continue
            for other in (uuid, device.card_uuid, *_instances(uuid, room)):
                holder = self._held.get((node, other)) if other is not None else None
                if holder is not None:
                    yield Problem(path=path, words=f"{node}: {uuid} is held by {holder}")
            if device.unhealthy:
                yield Problem(path=path, words=f"{node}: {uuid} is unhealthy")
        for uuid in one.spec.devices:
            self._held[node, uuid] = one.spec.replica

    def _host_memory(self, path: str, room: NodeRoom, one: Assignment) -> Iterator[Problem]:
        node, host = room.node.id, room.node.inventory.host
        self._memory[node] = self._memory.get(node, 0) + (one.spec.memory_bytes or 0)
        total = host.memory_bytes if host is not None else None
        if one.spec.memory_bytes and total is not None and self._memory[node] > total:
            words = f"{node}: {self._memory[node]} of {total} bytes of memory are given out"
            yield Problem(path=path, words=words)

    def _stop(self, path: str, step: StopReplica) -> Iterator[Problem]:
        if not step.shards:
            yield Problem(path=path, words=f"{step.replica}: stops no shard")
        for node, rank in step.shards:
            if (step.replica, node, rank) not in self._there:
                yield Problem(path=path, words=f"{step.replica}/{rank} is not on {node}")


def _instances(card: str, room: NodeRoom) -> Iterator[str]:
    for device in room.node.inventory.devices or ():
        if device.card_uuid == card:
            yield device.uuid
