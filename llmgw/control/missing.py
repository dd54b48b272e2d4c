"""Shards that a replica of several nodes must have and that no node says it has (REC-10).

A node that has said what it runs, or that left the cluster, will not come with one; a node that was
not heard since this control plane began may. Where each shard was sent stands in the specs of the
others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmgw.control.nodes import Placed
from llmgw.model.shard import Rendezvous

MOST = 256
"""Shards of one replica: a node that claims more of them is not believed."""

Gone = Callable[[str | None], str | None]
"""Says of a node, or of whichever it is, why it will not come with the shard; None: it may."""


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


def missing(placed: Sequence[Placed], gone: Gone) -> tuple[Missing, ...]:
    """Return the shards that are missing of a replica, by rank.

    Args:
        placed: those that are known, at least one.
        gone: says of each node whether its shard may still come.
    """
    there = {one.status.rank for one in placed}
    meeting = _meeting(placed)
    sent = dict(enumerate(meeting.nodes)) if meeting is not None else {}
    return tuple(
        Missing(rank=rank, node=sent.get(rank), gone=gone(sent.get(rank)))
        for rank in range(world(placed))
        if rank not in there
    )


def _meeting(placed: Sequence[Placed]) -> Rendezvous | None:
    """Return what the shard of the lowest rank was told of the others: it speaks for all."""
    told = [one.status for one in placed if one.status.spec is not None]
    first = min(told, key=lambda one: one.rank, default=None)
    return first.spec.rendezvous if first is not None and first.spec is not None else None
