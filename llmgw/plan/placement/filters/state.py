"""Is the node there, and meant."""

from llmgw.model.node import LOST, READY, Node
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, NOT_NOW, Verdict

RULE = "state"


def state(request: Request, space: Space) -> Verdict | None:
    """Turn away a node that is not ready, or that an operator takes out."""
    node = space.node
    if node.liveness != READY:
        return _not_ready(node)
    if node.wish is not None:
        return Verdict(kind=NEVER, rule=RULE, words=f"{node.id}: is {node.wish}")
    return None


def _not_ready(node: Node) -> Verdict:
    if node.liveness is None:
        words = "has not reported since the control plane started"
    elif node.liveness == LOST:
        words = "is lost; nothing new is placed there"
    else:
        words = f"is {node.liveness}; nothing new is placed there"
    kind = NEVER if node.liveness == LOST else NOT_NOW
    return Verdict(kind=kind, rule=RULE, words=f"{node.id}: {words}")
