"""The gateways: what users' requests go through."""

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.gateway_restart import restart_workers
from llmgw.model.gateway import Gateway
from llmgw.model.keys import ADMIN, READ


async def gateways(call: Call) -> tuple[Gateway, ...]:
    """Return all gateways, by id."""
    return tuple(sorted(call.plane.gateways.all(), key=lambda gateway: gateway.id))


async def restart(call: Call) -> Gateway:
    """Have a gateway replace its workers; answered when it is told, not when it is done."""
    plane = call.plane
    return await restart_workers(
        plane.gateways, plane.store, plane.clock, call.path["id"], actor=call.caller.name
    )


OPERATIONS = (
    Operation("GET", f"{PREFIX}/gateways", READ, gateways, "All gateways."),
    Operation(
        "POST",
        f"{PREFIX}/gateways/{{id}}/restart",
        ADMIN,
        restart,
        "Replace a gateway's workers, one after the other: no connection is refused or reset.",
    ),
)
