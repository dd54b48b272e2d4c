"""Is the node lent to somebody else."""

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NOT_NOW, Verdict


def lent(request: Request, space: Space) -> Verdict | None:
    """Turn away a node that is lent to Slurm, until it is taken back."""
    if space.room.lent is None:
        return None
    words = f"{space.node.id}: is lent to {space.room.lent}"
    return Verdict(kind=NOT_NOW, rule="lent", words=words)
