"""What each replica is to the plan: does it count, does it serve, must it go, can it be told so."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw.model.catalog import REPLACE, Model
from llmgw.model.node import DRAINING, LOST, READY, Node
from llmgw.model.replica import LEAVING, Replica, ReplicaShard
from llmgw.model.shard import FAILED, STOPPED, STOPPING, STUCK
from llmgw.model.shard import READY as SHARD_READY

_GONE = frozenset({STOPPED, FAILED})


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, as replicas are judged by them."""

    by_id: Mapping[str, Node]
    lost_for: Mapping[str, float] = field(default_factory=dict)
    """Seconds since each lost node counts as lost."""
    lost_together: Collection[str] = ()
    """Those of a mass loss: they are waited for, whatever else is said of them."""


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
    lost: tuple[str, ...]
    """Those of its nodes that are."""
    waited_for: bool
    """A node of it was lost with many others: it counts until that is over."""
    torn: bool
    """Some of its nodes are lost and others are not: those hold what it can't use without them."""
    replaced: bool
    """A node of it is lost for so long that another takes its place."""
    on_draining: bool
    outdated: str | None
    """Why it has to be replaced by another, in words; None when it is as wanted."""

    @property
    def told(self) -> bool:
        """Say whether it is told to go: as one, or those that can be told where others are lost."""
        return self.reachable or self.torn

    @property
    def on_lost(self) -> bool:
        """Say whether a node of it is lost."""
        return bool(self.lost)

    @property
    def where(self) -> str:
        """Return its nodes, for a sentence."""
        return ", ".join(dict.fromkeys(shard.node for shard in self.replica.shards)) or "no node"


def standing(replica: Replica, model: Model, fingerprint: str, nodes: Nodes) -> Standing:
    """Return what a replica of a model in the catalog is to the plan.

    Args:
        replica: as the fleet rebuilt it.
        model: the catalog's.
        fingerprint: what its profile would be started with now.
        nodes: all nodes.
    """
    ids = [shard.node for shard in replica.shards]
    there = [nodes.by_id.get(node) for node in ids]
    lost = tuple(
        name
        for name, node in dict(zip(ids, there, strict=True)).items()
        if node is None or node.liveness == LOST
    )
    on_draining = any(node is not None and node.wish == DRAINING for node in there)
    ready = replica.state == SHARD_READY
    waited_for = bool(lost) and any(node in nodes.lost_together for node in ids)
    some_there = any(node is not None and node.liveness == READY for node in there)
    return Standing(
        replica=replica,
        leaving=replica.state in LEAVING,
        gone=replica.state in _GONE,
        ready=ready,
        serves=ready and not lost,
        reachable=all(node is not None and node.liveness == READY for node in there),
        lost=lost,
        waited_for=waited_for,
        torn=bool(lost) and some_there and not waited_for,
        replaced=bool(lost) and not waited_for and _lost_for_good(ids, model, nodes),
        on_draining=on_draining,
        outdated=_removed(ids, nodes)
        or _outdated(replica, model, fingerprint, on_draining=on_draining),
    )


def _removed(ids: Sequence[str], nodes: Nodes) -> str | None:
    gone = [node for node in ids if node not in nodes.by_id]
    return f"{gone[0]} is not in the cluster any more" if gone else None


def _lost_for_good(ids: Sequence[str], model: Model, nodes: Nodes) -> bool:
    policy = model.disconnect
    longest = max((nodes.lost_for.get(node, 0.0) for node in ids), default=0.0)
    return policy.policy == REPLACE and longest >= policy.after


def is_stale(replica: Replica, fingerprint: str) -> bool | None:
    """Say whether a replica runs something else than the catalog says; None: it can't be told."""
    return None if not replica.fingerprint else replica.fingerprint != fingerprint


def least_useful_first(standings: Sequence[Standing], first: Collection[str]) -> list[Standing]:
    """Return replicas in the order in which they are given up.

    First those on lost nodes, which may never return, even before one that only starts; then those
    that are not ready, then those in `first` (see `llmgw.plan.returned`), then those on nodes that
    are out of reach or draining; then the newest.
    """

    def order(one: Standing) -> tuple[bool, bool, bool, bool, float, str]:
        since = one.replica.since
        return (
            not one.on_lost,
            one.ready,
            one.replica.id not in first,
            one.reachable and not one.on_draining,
            -since if since is not None else float("-inf"),
            one.replica.id,
        )

    return sorted(standings, key=order)


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
