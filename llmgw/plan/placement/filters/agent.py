"""Can the node's agent do what is asked of it."""

from llmgw.model.commands import FEATURE_OF, StartShard
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict

_STARTS = FEATURE_OF[StartShard]


def agent(request: Request, space: Space) -> Verdict | None:
    """Turn away a node whose agent says what it can do, and that it starts no engines."""
    node = space.node
    if node.features is None or _STARTS in node.features:
        return None
    version = node.agent_version or "of an unknown version"
    return Verdict(
        kind=NEVER, rule="agent", words=f"{node.id}: its agent ({version}) starts no engines"
    )
