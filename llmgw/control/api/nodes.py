"""Nodes: what they are, how they are, what is wanted of them."""

import msgspec

from llmgw.base.errors import NotFound
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import NodeShown, Wish
from llmgw.model.keys import ADMIN, OPERATE, READ
from llmgw.model.node import Node


async def nodes(call: Call) -> tuple[Node, ...]:
    """Return all nodes, by id."""
    return call.plane.fleet.nodes()


async def node(call: Call) -> NodeShown:
    """Return one node with its last heartbeat."""
    found = call.plane.fleet.node(call.path["id"])
    if found is None:
        raise NotFound(f"no node {call.path['id']!r}", hint="list them: llmgw ctl nodes")
    sample = call.plane.fleet.sample(found.id)
    return NodeShown(
        **msgspec.structs.asdict(found),
        sample=sample.heartbeat if sample else None,
        sampled_at=sample.at if sample else None,
    )


async def remove_node(call: Call) -> None:
    """Forget a node: its certificates are denied and its stream is cut."""
    await call.plane.membership.remove(call.path["id"], actor=call.caller.name)


async def wish(call: Call, body: Wish) -> Node:
    """Cordon, drain or release a node."""
    return await call.plane.membership.set_wish(call.path["id"], body.wish, actor=call.caller.name)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/nodes", READ, nodes, "All nodes."),
    Operation("GET", f"{PREFIX}/nodes/{{id}}", READ, node, "One node with its last heartbeat."),
    Operation(
        "DELETE",
        f"{PREFIX}/nodes/{{id}}",
        ADMIN,
        remove_node,
        "Forget a node: its certificates are denied and its stream is cut.",
        status=204,
    ),
    Operation(
        "POST", f"{PREFIX}/nodes/{{id}}/wish", OPERATE, wish, "Cordon, drain or release a node."
    ),
)
