"""Replicas: what runs, rebuilt from what nodes report."""

from llmgw.base.errors import NotFound
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.model.keys import READ
from llmgw.model.replica import Replica


async def replicas(call: Call) -> tuple[Replica, ...]:
    """Return all replicas, by id."""
    return call.plane.fleet.replicas()


async def replica(call: Call) -> Replica:
    """Return one replica."""
    found = call.plane.fleet.replica(call.path["id"])
    if found is None:
        raise NotFound(f"no replica {call.path['id']!r}", hint="list them: llmgw ctl replicas")
    return found


OPERATIONS = (
    Operation("GET", f"{PREFIX}/replicas", READ, replicas, "All replicas."),
    Operation("GET", f"{PREFIX}/replicas/{{id}}", READ, replica, "One replica."),
)
