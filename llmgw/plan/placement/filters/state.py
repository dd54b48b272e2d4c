"""Is the node there, and meant."""

from shlex import quote

from llmgw.model.node import READY, Node
from llmgw.plan.placement.kinds import WISH
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NOT_NOW, Verdict

RULE = "state"


def state(request: Request, space: Space) -> Verdict | None:
    """Turn away a node that is not ready, or that an operator takes out.

    One that is away may come back by itself; one that is taken out is, when a person says so: by
    the rule others tell the one from the other.
    """
    node = space.node
    if node.wish is not None:
        away = f", {_not_ready(node)}" if node.liveness != READY else ""
        back = f"`llmgw ctl node uncordon {quote(node.id)}` takes it back"
        words = f"{node.id}: is {node.wish} ({back}){away}"
        return Verdict(kind=NOT_NOW, rule=WISH, words=words)
    if node.liveness != READY:
        return Verdict(kind=NOT_NOW, rule=RULE, words=f"{node.id}: {_not_ready(node)}")
    return None


def _not_ready(node: Node) -> str:
    if node.liveness is None:
        return "has not reported since the control plane started"
    return f"is {node.liveness}; nothing new is placed there"
