"""How wide the PCIe links of the devices are."""

from llmgw.plan.placement.devices import take
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space


def link(request: Request, space: Space) -> int:
    """Return what the slowest PCIe link of the devices that it would take carries of what it could.

    100 where no link is known to be slow, and for the CPU.
    """
    if request.profile.gpus == 0 or not space.links:
        return 100
    taken = take(request, space)
    return round(100 * min((space.links.get(device.uuid, 1.0) for device in taken), default=1.0))
