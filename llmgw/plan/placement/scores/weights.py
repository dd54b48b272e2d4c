"""Are the weights there already."""

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def weights(request: Request, space: Space) -> int:
    """Return 100 where the weights are held."""
    return 100 if request.weights is not None and request.weights in space.weights else 0
