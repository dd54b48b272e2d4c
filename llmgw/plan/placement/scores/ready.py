"""Is the engine known to be there."""

from llmgw.model.catalog import SIMULATED
from llmgw.plan.placement.filters.engine import is_ready
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def ready(request: Request, space: Space) -> int:
    """Return 100 where the engine is installed, 0 where the node can't say."""
    if request.profile.engine == SIMULATED:
        return 100
    for one in space.node.inventory.engines or ():
        if is_ready(request, one):
            return 100
    return 0
