"""Is what the profile asks for possible on any node. The catalog refuses the same (PLC-2)."""

from llmgw.plan.placement.devices import takes_one
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict


def mig(request: Request, space: Space) -> Verdict | None:
    """Turn every node away for a profile of several MIG instances: it takes one or none."""
    profile = request.profile
    if not takes_one(profile) and any("-mig-" in name for name in profile.device_classes):
        words = "a MIG class takes one instance: gpus, nodes, tp and pp are 1"
        return Verdict(kind=NEVER, rule="mig", words=f"{space.node.id}: {words}")
    return None


def spans(request: Request, space: Space) -> Verdict | None:
    """Turn every node away for a replica of several nodes on the CPU: nothing joins them."""
    profile = request.profile
    if profile.nodes > 1 and profile.gpus == 0:
        words = "a replica of several nodes needs GPUs on each"
        return Verdict(kind=NEVER, rule="fabric", words=f"{space.node.id}: {words}")
    return None
