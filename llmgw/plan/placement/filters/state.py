"""Is the node there, and meant."""

from llmgw.model.node import READY, Node
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, NOT_NOW, Verdict

RULE = "state"


def state(request: Request, space: Space) -> Verdict | None:
    """Turn away a node that is not ready, or that an operator takes out.

    One that is away may come back; one that is taken out stays so until a person says otherwise.
    """
    node = space.node
    if node.liveness == READY and node.wish is None:
        return None
    reasons = [f"is {node.wish}"] if node.wish is not None else []
    if node.liveness != READY:
        reasons.append(_not_ready(node))
    kind = NOT_NOW if node.wish is None else NEVER
    return Verdict(kind=kind, rule=RULE, words=f"{node.id}: {', '.join(reasons)}")


def _not_ready(node: Node) -> str:
    if node.liveness is None:
        return "has not reported since the control plane started"
    return f"is {node.liveness}; nothing new is placed there"
