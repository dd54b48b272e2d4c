"""Shards that a replica of several nodes must have and that no node says it has (REC-10).

A node that has said what it runs, or that left the cluster, will not come with one; a node that was
not heard since this control plane began may. Where each shard was sent stands in the specs of the
others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from llmgw.control.nodes import Placed, SeenNode
from llmgw.model.shard import Rendezvous
from llmgw.plan.words import counted

MOST = 256
"""Shards of one replica: a node that claims more of them is not believed."""

Gone = Callable[[str | None], str | None]
"""Says of a node, or of whichever it is, why it will not come with the shard; None: it may."""

Awaited = Callable[[], bool]
"""Says whether some node may still say that it runs something: it looks at every node."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One shard that is missing."""

    rank: int
    node: str | None
    """Where it was sent; None: an older control plane sent it, and did not say."""
    gone: str | None
    """Why it will not come back, in words; None: its node may still say that it has it."""


def world(placed: Sequence[Placed]) -> int:
    """Return how many shards a replica has, by what those were told that are known."""
    meeting = _meeting(placed)
    return 1 if meeting is None else min(meeting.world, MOST)


def missing(placed: Sequence[Placed], gone: Gone, *, nodes: int = MOST) -> tuple[Missing, ...]:
    """Return the shards that are missing of a replica, by rank.

    Each shard has a node of its own: of a replica that says it has more shards than the cluster has
    nodes one is gone, whoever is waited for, and no more than that many are looked at.

    Args:
        placed: those that are known, at least one.
        gone: says of each node whether its shard may still come.
        nodes: how many the cluster has.
    """
    there = {one.status.rank for one in placed}
    meeting = _meeting(placed)
    sent = dict(enumerate(meeting.nodes[:MOST])) if meeting is not None else {}
    total = world(placed)
    absent = (rank for rank in range(total) if rank not in there)
    found = tuple(
        Missing(rank=rank, node=sent.get(rank), gone=gone(sent.get(rank)))
        for rank in islice(absent, nodes + 1)
    )
    if total > nodes and found and all(one.gone is None for one in found):
        last = replace(found[-1], gone=f"the cluster has {counted(nodes, 'node')}")
        found = (*found[:-1], last)
    return found


def gone_from(nodes: Mapping[str, SeenNode], awaited: Awaited, node: str | None) -> str | None:
    """Return why a node will not come with a shard that was sent there; None: it may.

    Where that was is not known of a shard that an older control plane sent: it may be on any node
    that is still waited for.
    """
    if node is None:
        return None if awaited() else "no node has it"
    seen = nodes.get(node)
    if seen is None:
        return f"{node} is not in the cluster any more"
    return f"{node} does not have it" if seen.listed else None


def _meeting(placed: Sequence[Placed]) -> Rendezvous | None:
    """Return what the shard of the lowest rank was told of the others: it speaks for all."""
    told = [one.status for one in placed if one.status.spec is not None]
    first = min(told, key=lambda one: one.rank, default=None)
    return first.spec.rendezvous if first is not None and first.spec is not None else None
