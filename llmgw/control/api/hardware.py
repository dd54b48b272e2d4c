"""What happened to ports and devices, of any leader of the last day."""

from llmgw.base.errors import NotFound
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import HardwareQuery
from llmgw.control.hardware import DAY
from llmgw.model.hardware import HardwareChange
from llmgw.model.keys import READ


async def hardware_changes(call: Call, query: HardwareQuery) -> tuple[HardwareChange, ...]:
    """Return the changes that went on since then, oldest first."""
    node = query.node or None
    if node is not None and call.plane.fleet.node(node) is None:
        raise NotFound(f"no node {node!r}", hint="list them: llmgw ctl nodes")
    since = call.plane.clock.now() - DAY if query.since is None else query.since
    return await call.plane.hardware.changes(since, node)


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/hardware-changes",
        READ,
        hardware_changes,
        "Ports that changed and driver errors of devices, oldest first.",
    ),
)
