"""How well the devices of a replica reach each other (PLC-6)."""

from collections.abc import Sequence

from llmgw.model.device import Device
from llmgw.plan.placement.devices import chosen_class, take
from llmgw.plan.placement.groups import linked
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space

LINKED, ONE_NUMA_NODE, APART = 100, 60, 30


def group(request: Request, space: Space) -> int:
    """Return 100 where the devices it would take have NVLink, or nobody says what joins them."""
    if request.profile.gpus < 2:
        return LINKED
    name = chosen_class(request, space)
    if name is None:
        return LINKED
    free = space.free(request.device_memory_bytes)[name]
    peers = free[0].nvlink_peers
    if peers and len(peers) >= len(space.node.inventory.devices or ()) - 1:
        return LINKED  # one switch joins all of them
    return _reach(take(request, space)) if _is_known(free) else LINKED


def _is_known(devices: Sequence[Device]) -> bool:
    return any(one.nvlink_peers is not None or one.numa_node is not None for one in devices)


def _reach(devices: Sequence[Device]) -> int:
    if linked(devices):
        return LINKED
    numa = {device.numa_node for device in devices}
    return ONE_NUMA_NODE if len(numa) == 1 and None not in numa else APART
