"""How little is left over: best fit by class."""

from llmgw.plan.placement.devices import chosen_class
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def fit(request: Request, space: Space) -> int:
    """Return more where less is left over: large free blocks stay whole, GPUs stay free."""
    profile = request.profile
    devices = space.node.inventory.devices or ()
    if profile.gpus == 0:
        return 0 if devices else 100
    name = chosen_class(request, space)
    if name is None:
        return 0
    left = len(space.free()[name]) - profile.gpus
    return 100 - 100 * left // len(devices)
