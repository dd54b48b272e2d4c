"""What each replica is to the plan: does it count, does it serve, must it go, can it be told so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import Model
from llmgw.model.node import DRAINING, LOST, READY, Node
from llmgw.model.replica import LEAVING, Replica, ReplicaShard
from llmgw.model.shard import FAILED, STOPPED, STOPPING, STUCK
from llmgw.model.shard import READY as SHARD_READY

_GONE = frozenset({STOPPED, FAILED})


@dataclass(frozen=True, slots=True)
class Standing:
    """A replica and what follows from its state and that of its nodes."""

    replica: Replica
    leaving: bool
    """It is being stopped: it no longer counts and still holds what it has."""
    gone: bool
    """It stopped or failed."""
    serves: bool
    """It is ready and none of its nodes is lost."""
    ready: bool
    reachable: bool
    """Every node of it is ready, so that it can be told to stop."""
    on_lost: bool
    on_draining: bool
    outdated: str | None
    """Why it has to be replaced by another, in words; None when it is as wanted."""

    @property
    def where(self) -> str:
        """Return its nodes, for a sentence."""
        return ", ".join(dict.fromkeys(shard.node for shard in self.replica.shards)) or "no node"


def standing(
    replica: Replica, model: Model, fingerprint: str, nodes: Mapping[str, Node]
) -> Standing:
    """Return what a replica of a model in the catalog is to the plan.

    Args:
        replica: as the fleet rebuilt it.
        model: the catalog's.
        fingerprint: what its profile would be started with now.
        nodes: all nodes by id.
    """
    there = [nodes.get(shard.node) for shard in replica.shards]
    lost = any(node is None or node.liveness == LOST for node in there)
    on_draining = any(node is not None and node.wish == DRAINING for node in there)
    ready = replica.state == SHARD_READY
    return Standing(
        replica=replica,
        leaving=replica.state in LEAVING,
        gone=replica.state in _GONE,
        ready=ready,
        serves=ready and not lost,
        reachable=all(node is not None and node.liveness == READY for node in there),
        on_lost=lost,
        on_draining=on_draining,
        outdated=_outdated(replica, model, fingerprint, on_draining=on_draining),
    )


def is_stale(replica: Replica, fingerprint: str) -> bool | None:
    """Say whether a replica runs something else than the catalog says; None: it can't be told."""
    return None if not replica.fingerprint else replica.fingerprint != fingerprint


def least_useful_first(
    standings: Sequence[Standing], nodes: Mapping[str, Node], wanted: int
) -> list[Standing]:
    """Return replicas in the order in which they are given up.

    First those that are not ready, then those that others took the place of while their node was
    away (REC-3a), then those on nodes that are lost, out of reach or draining; then the newest.
    """

    def order(one: Standing) -> tuple[bool, bool, bool, float, str]:
        since = one.replica.since
        return (
            one.ready,
            not superseded(one, standings, nodes, wanted),
            one.reachable and not one.on_draining,
            -since if since is not None else float("-inf"),
            one.replica.id,
        )

    return sorted(standings, key=order)


def superseded(
    one: Standing, standings: Sequence[Standing], nodes: Mapping[str, Node], wanted: int
) -> bool:
    """Say whether enough others served already when this one's node came back."""
    back = _node_since(one, nodes)
    since = one.replica.since
    if not one.ready or back is None or since is None or since >= back:
        return False
    served = 0
    for other in standings:
        there = _node_since(other, nodes)
        if other is one or not other.serves or there is None or other.replica.since is None:
            continue
        served += there < back and other.replica.since <= back
    return served >= wanted


def _node_since(one: Standing, nodes: Mapping[str, Node]) -> float | None:
    """Return when the last of a replica's nodes became what it is; None when one can't say."""
    times = [
        node.since if (node := nodes.get(shard.node)) is not None else None
        for shard in one.replica.shards
    ]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def live_shards(replica: Replica) -> tuple[ReplicaShard, ...]:
    """Return the shards whose process may be there and that were not told to stop."""
    return tuple(
        shard for shard in replica.shards if shard.state not in {STOPPED, FAILED, STOPPING}
    )


def _outdated(replica: Replica, model: Model, fingerprint: str, *, on_draining: bool) -> str | None:
    if replica.state == STUCK:
        return "it is stuck"
    if model.roll_when_stale and is_stale(replica, fingerprint):
        return "the catalog changed since it was started"
    if on_draining:
        return "its node is draining"
    return None
