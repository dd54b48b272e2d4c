"""Many nodes that fall silent within the same few seconds: a fault on this side (LINK-6a).

A machine dies alone. When a third of a fleet falls silent at once, this control plane or its
network is what failed, and the engines go on: nothing is placed anew for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.plan.records import MassLoss
from llmgw.plan.words import some

LEAST = 3
"""Fewer nodes than that are never a mass loss."""
SHARE = 3
"""More than one in so many have to be lost."""
WITHIN = 10.0
"""Seconds within which they fall silent; two heartbeat intervals where those are longer."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A node of which nothing is heard.

    `since`: monotonic seconds at which it was last heard; where it was not heard since this control
    plane began, the moment at which that was.
    """

    node: str
    since: float
    lost: bool
    """Its silence is long enough to count as lost."""
    heard: bool
    """It was heard since this control plane began."""


@dataclass(frozen=True, slots=True)
class Together:
    """A mass loss that goes on: who was lost, and since when (monotonic) it looks like an end."""

    nodes: frozenset[str]
    ending: float | None = None


def lost_together(silent: Sequence[Silent], others: int, within: float) -> frozenset[str]:
    """Return the nodes that were lost together; empty when none were.

    Nodes that are only silent yet count as well, as soon as one that fell silent with them is lost:
    the others follow within seconds, and nothing may be decided between.

    Args:
        silent: every node that is not ready.
        others: how many are.
        within: seconds within which nodes fall silent together.
    """
    ordered = sorted(silent, key=lambda one: (one.since, one.node))
    found: set[str] = set()
    for first, one in enumerate(ordered):
        group = [other for other in ordered[first:] if other.since - one.since <= within]
        there_before = len(ordered) - first + others
        many = len(group) >= LEAST and len(group) * SHARE > there_before
        if many and any(other.lost for other in group):
            found.update(other.node for other in group)
    return frozenset(found)


def follow(
    before: Together | None,
    silent: Sequence[Silent],
    others: int,
    *,
    within: float,
    now: float,
    settling: float,
) -> Together | None:
    """Return the mass loss at a moment, from that of the moment before; None when there is none.

    It ends once all are back; or when too few are missing for one, and they had the settling
    period's time to follow the others.
    """
    found = lost_together(silent, others, within)
    if before is None:
        return Together(found) if found else None
    away = frozenset(one.node for one in silent)
    nodes = found | (before.nodes & away)
    if found:
        return Together(nodes)
    since = now if before.ending is None else before.ending
    return Together(nodes, since) if nodes and now - since < settling else None


def described(together: Together, silent: Sequence[Silent], of: int) -> MassLoss:
    """Return a mass loss as the plan is told it.

    Args:
        together: the mass loss.
        silent: every node that is not ready.
        of: how many nodes there are.
    """
    nodes = tuple(sorted(together.nodes))
    return MassLoss(
        nodes=nodes,
        words=f"{len(nodes)} of {of} nodes were lost within a few seconds ({some(nodes)}): taken "
        "for a fault of this control plane or its network",
        blind=any(one.node in together.nodes and not one.heard for one in silent),
    )
