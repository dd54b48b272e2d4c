"""Do replicas of one model stand on several nodes."""

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def spread(request: Request, space: Space) -> int:
    """Return less for each shard of the same model that is there already."""
    return 100 // (1 + space.models.get(request.model.name, 0))
