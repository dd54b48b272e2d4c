"""Replicas rebuilt from what agents report of their shards: pure, and the one place for it."""

from collections.abc import Callable, Sequence

import msgspec

from llmgw.control.missing import Missing, world
from llmgw.control.nodes import Placed
from llmgw.model.replica import DRAINING, Replica, ReplicaShard
from llmgw.model.shard import (
    FAILED,
    FETCHING,
    READY,
    STARTING,
    STOPPED,
    STOPPING,
    STUCK,
    ShardStatus,
)
from llmgw.model.weights import held_as
from llmgw.plan.records import Booking

_ORDER = (FAILED, STUCK, STOPPED, STOPPING, FETCHING, STARTING, READY)
"""From the least advanced on: a replica is as far as the first of these among its shards."""

_UNKNOWN = _ORDER.index(FETCHING)
"""A state that this version does not know is not ready, and is not over either."""


def latest(known: ShardStatus | None, told: ShardStatus) -> ShardStatus:
    """Return a shard's status after a report.

    A report says everything but what does not change while a process lives: the spec comes with
    the first status only, and what an engine computes on is read once, from its first lines.
    """
    if known is None:
        return told
    kept: dict[str, object] = {}
    if told.spec is None:
        kept["spec"] = known.spec
    if told.address is None:
        kept["address"] = known.address
    same_process = told.pid is None or known.pid is None or told.pid == known.pid
    if same_process and told.state not in {FETCHING, FAILED, STOPPED}:
        for name in ("compute", "served_name", "keyed", "port", "adopted", "pid"):
            if getattr(told, name) is None:
                kept[name] = getattr(known, name)
    return msgspec.structs.replace(told, **kept) if kept else told


def rebuild(
    replica: str,
    placed: Sequence[Placed],
    *,
    fingerprint: Callable[[str, str], str | None],
    missing: Sequence[Missing] = (),
    draining: str | None = None,
    ordered: bool = False,
) -> Replica:
    """Return a replica from its shards.

    Args:
        replica: its id.
        placed: its shards, at least one.
        fingerprint: what the catalog would start for (model, profile) now; None when it left.
        missing: the shards that it must have and no node says it has (REC-10).
        draining: why it is being stopped, in words; None when it is not.
        ordered: its nodes were told to stop it: it is on its way out, however it was before.
    """
    spec = next((one.status.spec for one in placed if one.status.spec is not None), None)
    state, reason = _state(placed, missing)
    if draining is not None and _leaves(state, ordered=ordered):
        state, reason = DRAINING, draining
    wanted = fingerprint(spec.model, spec.profile) if spec else None
    comparable = spec is not None and bool(spec.fingerprint) and wanted is not None
    times = [one.status.since for one in placed if one.status.since is not None]
    return Replica(
        id=replica,
        model=spec.model if spec else None,
        profile=spec.profile if spec else None,
        engine=spec.engine if spec else None,
        fingerprint=spec.fingerprint if spec else None,
        state=state,
        stale=wanted != spec.fingerprint if comparable and spec else None,
        since=max(times) if times else None,
        reason=reason,
        shards=tuple(sorted((*map(_shard, placed), *_awaited(missing)), key=lambda one: one.rank)),
    )


def bookings(placed: Sequence[Placed], every_device: tuple[str, ...]) -> tuple[Booking, ...]:
    """Return what the shards on one node hold.

    A shard that nobody can describe (an agent that can't say what it runs) may hold any device:
    it books all of them (invariant 3).
    """
    return tuple(_booking(one.status, every_device) for one in placed)


def _booking(status: ShardStatus, every_device: tuple[str, ...]) -> Booking:
    spec = status.spec
    if spec is None:
        return Booking(replica=status.replica, rank=status.rank, devices=every_device)
    fetches = status.state in {None, FETCHING, STARTING}
    return Booking(
        replica=status.replica,
        rank=status.rank,
        model=spec.model,
        devices=spec.devices,
        memory_bytes=spec.memory_bytes,
        cpu_cores=spec.cpu_cores,
        weights=held_as(spec.source) if fetches and spec.source else None,
        disk_bytes=spec.disk_bytes if fetches else None,
    )


def _state(placed: Sequence[Placed], missing: Sequence[Missing]) -> tuple[str | None, str | None]:
    """Return a replica's state and reason: without one of its shards it has failed (REC-10).

    While a node may still say that it has the shard that is missing, rank 0 speaks for all: its
    engine answers with the others or not at all, and goes on while agents and leaders change.
    """
    first = min(placed, key=lambda one: _rank(one.status.state))
    state, reason = first.status.state, first.status.reason
    if not missing or _rank(state) < _UNKNOWN:
        return state, reason
    gone = next((one for one in missing if one.gone is not None), None)
    if gone is not None:
        return FAILED, f"shard {gone.rank} of {world(placed)} is missing: {gone.gone}"
    if state == READY and any(one.status.rank == 0 for one in placed):
        return state, reason
    total = world(placed)
    return STARTING, f"{total - len(missing)} of {total} shards are known"


def _leaves(state: str | None, *, ordered: bool) -> bool:
    """Say whether a replica that is given up goes in this state, and is not over."""
    if ordered:
        return state not in {FAILED, STOPPED, STOPPING}
    return state in {READY, STARTING, FETCHING}


def _awaited(missing: Sequence[Missing]) -> tuple[ReplicaShard, ...]:
    """Return the shards that nodes may still have: what becomes of them is their nodes' matter."""
    return tuple(
        ReplicaShard(rank=one.rank, node=one.node, reason="its node has not said yet what it runs")
        for one in missing
        if one.gone is None and one.node is not None
    )


def _rank(state: str | None) -> int:
    return _ORDER.index(state) if state in _ORDER else _UNKNOWN


def _shard(one: Placed) -> ReplicaShard:
    status = one.status
    spec = status.spec
    return ReplicaShard(
        rank=status.rank,
        node=one.node,
        state=status.state,
        devices=spec.devices if spec else (),
        pid=status.pid,
        address=status.address,
        port=status.port,
        served_name=status.served_name,
        keyed=status.keyed,
        adopted=status.adopted,
        reason=status.reason,
        cause=status.cause,
        progress=status.progress,
        compute=status.compute,
        memory_bytes=spec.memory_bytes if spec else None,
        cpu_cores=spec.cpu_cores if spec else None,
        last_lines=status.last_lines,
    )
