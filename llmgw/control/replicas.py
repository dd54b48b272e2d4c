"""Replicas rebuilt from what agents report of their shards: pure, and the one place for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

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


@dataclass(frozen=True, slots=True)
class Placed:
    """One shard where it is, or where it was sent to."""

    node: str
    status: ShardStatus


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
    draining: str | None = None,
) -> Replica:
    """Return a replica from its shards.

    Args:
        replica: its id.
        placed: its shards, at least one.
        fingerprint: what the catalog would start for (model, profile) now; None when it left.
        draining: why it is being stopped, in words; None when it is not.
    """
    spec = next((one.status.spec for one in placed if one.status.spec is not None), None)
    state, reason = _state(placed, spec.rendezvous.world if spec and spec.rendezvous else 1)
    if draining is not None and state in {READY, STARTING, FETCHING}:
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
        shards=tuple(_shard(one) for one in placed),
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


def _state(placed: Sequence[Placed], world: int) -> tuple[str | None, str | None]:
    first = min(placed, key=lambda one: _rank(one.status.state))
    state, reason = first.status.state, first.status.reason
    ranks = {one.status.rank for one in placed}
    if len(ranks) < world and _rank(state) >= _UNKNOWN:
        return STARTING, f"{len(ranks)} of {world} shards are known"
    return state, reason


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
