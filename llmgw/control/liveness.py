"""Whether a node is there: a function of the age of what was last heard, and of nothing else."""

from llmgw.model.node import LOST, READY, UNREACHABLE

MISSED = 3
"""Heartbeat intervals without a word after which a node is unreachable."""


def liveness(age: float, interval: float, lost_after: float) -> str:
    """Return `ready`, `unreachable` or `lost` for the age, in seconds, of the last message.

    Args:
        age: seconds since any message of the node.
        interval: the heartbeat interval that this node was told.
        lost_after: from the settings; never less than what makes a node unreachable.
    """
    if age < MISSED * interval:
        return READY
    return LOST if age >= max(lost_after, MISSED * interval) else UNREACHABLE


def next_change(age: float, interval: float, lost_after: float) -> float | None:
    """Return in how many seconds of silence the verdict changes next; None: never again."""
    unreachable = MISSED * interval
    if age < unreachable:
        return unreachable - age
    lost = max(lost_after, unreachable)
    return lost - age if age < lost else None
