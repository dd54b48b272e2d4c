"""How much host memory is left."""

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def memory(request: Request, space: Space) -> int:
    """Return the share of its memory that is left; unknown memory or use counts as full."""
    host = space.node.inventory.host
    if host is None or not host.memory_bytes or space.unknown is not None:
        return 0
    left = host.memory_bytes - space.memory - (request.reserved_bytes or 0)
    return max(0, 100 * left // host.memory_bytes)
