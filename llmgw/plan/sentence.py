"""One sentence for a plan: what it does and why, or why it does nothing.

It holds nothing that changes by itself (no ages, no countdowns): it is logged when it changes.
"""

from collections.abc import Mapping, Sequence

from llmgw.model.node import DRAINING, READY
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.plan.blind import waits_for
from llmgw.plan.drain import hanging
from llmgw.plan.records import (
    Desired,
    DrainReplica,
    EvictReplica,
    KeepReplica,
    MassLoss,
    Observed,
    PreemptReplica,
    Refusal,
    StartReplica,
    Step,
    StopReplica,
)
from llmgw.plan.words import counted, some


def waits_to_settle(observed: Observed) -> str:
    """Return why a pass neither starts nor stops anything yet (REC-2)."""
    if not observed.waiting_for:
        return "settling: waits before it starts or stops anything"
    return f"settling: waits for {some(observed.waiting_for)} to report before it does anything"


def sentence(
    desired: Desired,
    observed: Observed,
    steps: Sequence[Step],
    refusals: Sequence[Refusal],
) -> str:
    """Return what a pass decided."""
    lost = observed.mass_loss
    parts = [f"{lost.words}; {_held_back(lost)}"] if lost is not None else []
    where = {replica.id: replica for replica in observed.replicas}
    keeps = [_drain(step, where) for step in steps if isinstance(step, KeepReplica)]
    stops = [_stop(step) for step in steps if isinstance(step, StopReplica)]
    drains = [_drain(step, where) for step in steps if isinstance(step, DrainReplica)]
    evicts = [_drain(step, where) for step in steps if isinstance(step, EvictReplica)]
    preempts = [_drain(step, where) for step in steps if isinstance(step, PreemptReplica)]
    starts = [_start(step) for step in steps if isinstance(step, StartReplica)]
    for verb, told in (
        ("keeps", keeps),
        ("stops", stops),
        ("drains", drains),
        ("evicts", evicts),
        ("pre-empts", preempts),
        ("starts", starts),
    ):
        if told:
            parts.append(f"{verb} " + some(told, f"; {verb} "))
    if refusals:
        parts.append("can't place " + some(_refused(refusals), "; can't place "))
    parts += _not_left(observed, steps, refusals)
    hangs = sorted(hanging(observed, desired.settings.reconcile.drain_limit))
    if hangs:
        there = [f"{name} on {_nodes(where[name])}" for name in hangs]
        does = "does" if len(hangs) == 1 else "do"
        parts.append(f"{some(there)} {does} not end although told to stop: not waited for")
    return "; ".join(parts) or _nothing(desired, observed)


def _not_left(observed: Observed, steps: Sequence[Step], refusals: Sequence[Refusal]) -> list[str]:
    """Return which nodes are to be left, and can't be: what serves there has no other place."""
    refused = {(one.model, one.profile) for one in refusals}
    goes = {step.replica for step in steps}
    parts = []
    for room in observed.nodes:
        if room.node.wish != DRAINING:
            continue
        stays = [
            one.id
            for one in observed.replicas
            if any(shard.node == room.node.id for shard in one.shards)
            and one.state == SHARD_READY
            and one.id not in goes
            and (one.model, one.profile) in refused
        ]
        if stays:
            has = "has" if len(stays) == 1 else "have"
            parts.append(f"{room.node.id} can't be left: {some(stays)} {has} no other place")
    return parts


def _refused(refusals: Sequence[Refusal]) -> list[str]:
    """Return who can't be placed and why; a reason that several share is said once."""
    by_words: dict[str, dict[str, None]] = {}
    for one in refusals:
        by_words.setdefault(one.words, {})[one.model] = None
    return [f"{some(list(models))}: {words}" for words, models in by_words.items()]


def _held_back(lost: MassLoss) -> str:
    return waits_for(lost) if lost.blind else "nothing is placed anew for them"


def _stop(step: StopReplica) -> str:
    nodes = ", ".join(dict.fromkeys(node for node, _ in step.shards))
    return f"{step.replica} on {nodes}: {step.words}"


def _drain(
    step: DrainReplica | EvictReplica | PreemptReplica | KeepReplica,
    replicas: Mapping[str, Replica],
) -> str:
    replica = replicas.get(step.replica)
    nodes = _nodes(replica) if replica is not None else "no node"
    return f"{step.replica} on {nodes}: {step.words}"


def _nodes(replica: Replica) -> str:
    return ", ".join(dict.fromkeys(shard.node for shard in replica.shards)) or "no node"


def _start(step: StartReplica) -> str:
    nodes = ", ".join(one.node for one in step.shards)
    devices = sum(len(one.spec.devices) for one in step.shards)
    what = f" ({counted(devices, 'device')})" if devices else ""
    return f"{step.replica} on {nodes}{what}: {step.words}"


def _nothing(desired: Desired, observed: Observed) -> str:
    live = [one for one in observed.replicas if one.state not in {STOPPED, FAILED}]
    busy = [one for one in live if one.state != SHARD_READY]
    if busy:
        return f"waits: {some([_state(one) for one in busy])}"
    away = _away(observed, live)
    if away:
        return f"waits for {some(away)}"
    if desired.settings.serving.stopped:
        return "nothing to do: the cluster is stopped and nothing runs"
    if not live:
        why = "no replica is wanted" if desired.models else "the catalog is empty"
        return f"nothing to do: {why}"
    models = counted(len({one.model for one in live}), "model")
    runs = "runs" if len(live) == 1 else "run"
    return f"nothing to do: {counted(len(live), 'replica')} of {models} {runs}"


def _state(replica: Replica) -> str:
    nodes = ", ".join(dict.fromkeys(shard.node for shard in replica.shards))
    return f"{replica.id} is {replica.state or 'of an unknown state'} on {nodes}"


def _away(observed: Observed, live: Sequence[Replica]) -> list[str]:
    """Return the nodes that are not ready and have replicas that count."""
    away = {room.node.id: room.node for room in observed.nodes if room.node.liveness != READY}
    has: dict[str, list[str]] = {}
    for replica in live:
        for name in dict.fromkeys(shard.node for shard in replica.shards):
            if name in away:
                has.setdefault(name, []).append(replica.id)
    return [
        f"{name} ({away[name].liveness or 'not heard of yet'}), which has {some(has[name])}"
        for name in sorted(has)
    ]
