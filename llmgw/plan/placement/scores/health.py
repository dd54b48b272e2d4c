"""Are the devices well: TEL-5's faults that keep nothing away, and throttling."""

from llmgw.plan.placement.devices import chosen_class, take
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def health(request: Request, space: Space) -> int:
    """Return how well the worst of the devices is that it would take; 100 for the CPU.

    Sick and throttling ones are taken only where there are too few others.
    """
    name = chosen_class(request, space) if request.profile.gpus and space.ailing else None
    if name is None:
        return 100
    free = space.free(request.device_memory_bytes)[name]
    well = sum(device.uuid not in space.ailing for device in free)
    if well >= request.profile.gpus:
        return 100
    taken = take(request, space)
    return min((space.ailing.get(device.uuid, 100) for device in taken), default=100)
