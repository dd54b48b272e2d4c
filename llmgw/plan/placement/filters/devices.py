"""Has the node enough devices of one class: healthy, free, used by nobody else, large enough."""

from llmgw.plan.placement.devices import chosen_class, shortage
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import Verdict


def devices(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without enough devices; the words tell what keeps each of them."""
    if request.profile.gpus == 0 or chosen_class(request, space) is not None:
        return None
    return shortage(request, space)
