"""Which of two replicas stays when a node comes back whose replica another took the place of.

That one took another's place is not remembered: it follows from when each of them became ready and
when the node came back.
"""

from collections.abc import Callable, Mapping, Sequence

from llmgw.model.catalog import BETTER, ORIGINAL
from llmgw.model.node import Node
from llmgw.plan.standing import Standing

Worth = Callable[[Standing], int]
"""How well its nodes suit a replica: what placement would score them without it."""


def give_way(
    standings: Sequence[Standing],
    nodes: Mapping[str, Node],
    wanted: int,
    *,
    on_return: str,
    worth: Worth,
) -> Mapping[str, str]:
    """Return the replicas that give way because of a node's return, by id, and why.

    Args:
        standings: the replicas of one profile that are as wanted.
        nodes: all nodes by id.
        wanted: how many replicas are wanted.
        on_return: the model's policy.
        worth: scores a replica's place.
    """
    originals = [one for one in standings if superseded(one, standings, nodes, wanted)]
    gone = {one.replica.id: f"another took its place while {one.where} was away"
            for one in originals}  # fmt: skip
    for original, successor in _pairs(originals, standings):
        better = on_return == BETTER and worth(original) > worth(successor)
        if on_return == ORIGINAL or better:
            del gone[original.replica.id]
            back = "the one whose place it took is back"
            gone[successor.replica.id] = f"{back}, on a better node" if better else back
    return gone


def _pairs(
    originals: Sequence[Standing], standings: Sequence[Standing]
) -> list[tuple[Standing, Standing]]:
    """Return each original with the one that took its place: the newest of the others serve so."""

    def since(one: Standing) -> tuple[float, str]:
        return (one.replica.since or 0.0, one.replica.id)

    others = [one for one in standings if one.serves and one not in originals]
    newest = sorted(others, key=since, reverse=True)
    return list(zip(sorted(originals, key=since, reverse=True), newest, strict=False))


def superseded(
    one: Standing, standings: Sequence[Standing], nodes: Mapping[str, Node], wanted: int
) -> bool:
    """Say whether enough others served already when this one's node came back."""
    back = _node_since(one, nodes)
    since = one.replica.since
    if not one.ready or one.on_lost or back is None or since is None or since >= back:
        return False  # of a lost node `since` is when it was lost: it is not back
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
