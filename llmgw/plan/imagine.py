"""What the fleet would be once a plan is carried out and all went well: for asking `what if`."""

from collections.abc import Collection, Iterable

import msgspec

from llmgw.model.node import Node
from llmgw.model.replica import DRAINING, LEAVING, Replica, ReplicaShard
from llmgw.model.shard import FETCHING, READY, STARTING
from llmgw.plan.records import Booking, Drain, KeepReplica, NodeRoom, Observed, Plan, StartReplica


def carried_out(observed: Observed, plan: Plan) -> Observed:
    """Return the fleet with what a plan starts ready and with what it gives up gone."""
    stay = StartReplica | KeepReplica
    gone = {step.replica for step in plan.steps if not isinstance(step, stay)}
    goes_on = {step.replica for step in plan.steps if isinstance(step, KeepReplica)}
    starts = [step for step in plan.steps if isinstance(step, StartReplica)]
    kept = tuple(
        msgspec.structs.replace(one, state=READY) if one.id in goes_on else one
        for one in observed.replicas
        if one.id not in gone
    )
    booked: dict[str, list[Booking]] = {}
    for step in starts:
        for one in step.shards:
            booked.setdefault(one.node, []).append(
                Booking(
                    replica=step.replica,
                    rank=one.spec.rank,
                    model=step.model,
                    devices=one.spec.devices,
                    memory_bytes=one.spec.memory_bytes,
                    cpu_cores=one.spec.cpu_cores,
                )
            )
    rooms = tuple(
        msgspec.structs.replace(
            room,
            bookings=(
                *(one for one in room.bookings if one.replica not in gone),
                *booked.get(room.node.id, ()),
            ),
        )
        for room in observed.nodes
    )
    nodes = {room.node.id: room.node for room in observed.nodes}
    started = tuple(_replica(step, nodes) for step in starts)
    return msgspec.structs.replace(
        observed,
        nodes=rooms,
        replicas=(*kept, *started),
        drains=tuple(one for one in observed.drains if one.replica not in gone | goes_on),
        loads=tuple(one for one in observed.loads if one.replica not in gone),
        settled=True,
        waiting_for=(),
    )


def given_up(
    observed: Observed, replicas: Collection[str], rolled: Iterable[tuple[str, str]] = ()
) -> Observed:
    """Return the fleet a moment after some replicas were given up: they drain.

    Args:
        observed: the fleet before.
        replicas: their ids.
        rolled: model and profile of each that goes for its successor.
    """
    fresh = tuple(Drain(replica=name, words="", lasts=0.0) for name in sorted(replicas))
    return msgspec.structs.replace(
        observed,
        drains=(*observed.drains, *fresh),
        successors=(*observed.successors, *rolled),
        replicas=tuple(
            msgspec.structs.replace(one, state=DRAINING) if one.id in replicas else one
            for one in observed.replicas
        ),
    )


def gone_through(observed: Observed) -> Observed:
    """Return the fleet as it will be when what starts is ready and what leaves is gone."""
    gone = {one.id for one in observed.replicas if one.state in LEAVING}
    rooms = tuple(_left(room, gone) for room in observed.nodes)
    return msgspec.structs.replace(
        observed,
        nodes=rooms,
        replicas=tuple(_arrived(one) for one in observed.replicas if one.id not in gone),
        drains=tuple(one for one in observed.drains if one.replica not in gone),
        settled=True,
        waiting_for=(),
    )


def without_nodes(observed: Observed, lost: frozenset[str]) -> Observed:
    """Return the fleet without some nodes and without the replicas that had a shard there."""
    gone = {one.id for one in observed.replicas if any(shard.node in lost for shard in one.shards)}
    return msgspec.structs.replace(
        observed,
        nodes=tuple(_left(room, gone) for room in observed.nodes if room.node.id not in lost),
        replicas=tuple(one for one in observed.replicas if one.id not in gone),
        waiting_for=tuple(name for name in observed.waiting_for if name not in lost),
    )


def _arrived(replica: Replica) -> Replica:
    if replica.state not in {FETCHING, STARTING}:
        return replica
    shards = tuple(msgspec.structs.replace(one, state=READY) for one in replica.shards)
    return msgspec.structs.replace(replica, state=READY, shards=shards)


def _left(room: NodeRoom, gone: set[str]) -> NodeRoom:
    bookings = tuple(one for one in room.bookings if one.replica not in gone)
    return msgspec.structs.replace(room, bookings=bookings)


def _replica(step: StartReplica, nodes: dict[str, Node]) -> Replica:
    first = step.shards[0].spec
    return Replica(
        id=step.replica,
        model=step.model,
        profile=step.profile,
        engine=first.engine,
        fingerprint=first.fingerprint,
        state=READY,
        stale=False,
        shards=tuple(
            ReplicaShard(
                rank=one.spec.rank,
                node=one.node,
                state=READY,
                devices=one.spec.devices,
                address=nodes[one.node].address,
                memory_bytes=one.spec.memory_bytes,
                cpu_cores=one.spec.cpu_cores,
            )
            for one in step.shards
        ),
    )
