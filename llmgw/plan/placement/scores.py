"""How well a node suits a replica that it can take: 0-100 a rule, summed by weight."""

from llmgw.plan.placement.devices import chosen_class, take
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space

WEIGHTS = {"spread": 5, "weights": 2, "fit": 1, "memory": 1, "link": 1}
"""How much each rule counts. Held weights outweigh fit and memory together; a second replica of a
model goes to another node even when the first one's holds the weights. A slow PCIe link keeps no
replica away: it makes another node as good as this one better."""

NEUTRAL = 100 * WEIGHTS["spread"]
"""What the rules about the model give a node that knows nothing of it: no weights, no replica."""


def weights(request: Request, space: Space) -> int:
    """Return 100 where the weights are held."""
    return 100 if request.weights is not None and request.weights in space.weights else 0


def spread(request: Request, space: Space) -> int:
    """Return less for each shard of the same model that is there already."""
    return 100 // (1 + space.models.get(request.model.name, 0))


def fit(request: Request, space: Space) -> int:
    """Return more where less is left over: large free blocks stay whole, GPUs stay free."""
    profile = request.profile
    devices = space.node.inventory.devices or ()
    if profile.gpus == 0:
        return 0 if devices else 100
    name = chosen_class(profile, space)
    if name is None:
        return 0
    left = len(space.free()[name]) - profile.gpus
    return 100 - 100 * left // len(devices)


def memory(request: Request, space: Space) -> int:
    """Return the share of its memory that is left; unknown memory or use counts as full."""
    host = space.node.inventory.host
    if host is None or not host.memory_bytes or space.unknown is not None:
        return 0
    left = host.memory_bytes - space.memory - (request.reserved_bytes or 0)
    return max(0, 100 * left // host.memory_bytes)


def link(request: Request, space: Space) -> int:
    """Return what the slowest PCIe link of the devices that it would take carries of what it could.

    100 where no link is known to be slow, and for the CPU.
    """
    if request.profile.gpus == 0 or not space.links:
        return 100
    taken = take(request.profile, space)
    return round(100 * min((space.links.get(device.uuid, 1.0) for device in taken), default=1.0))


def scores(request: Request, space: Space) -> dict[str, int]:
    """Return every rule's score of a node that can take the replica; of links only a slow one's."""
    found = {
        "spread": spread(request, space),
        "weights": weights(request, space),
        "fit": fit(request, space),
        "memory": memory(request, space),
    }
    slow = link(request, space)
    return found if slow == 100 else {**found, "link": slow}


def total(request: Request, space: Space) -> int:
    """Return the weighted sum of all rules."""
    found = {"link": 100, **scores(request, space)}
    return sum(WEIGHTS[rule] * score for rule, score in found.items())


def total_of_stranger(request: Request, space: Space) -> int:
    """Return the sum for a node that knows nothing of the model: one for all alike requests."""
    known = {
        "fit": fit(request, space),
        "memory": memory(request, space),
        "link": link(request, space),
    }
    return NEUTRAL + sum(WEIGHTS[rule] * score for rule, score in known.items())
