"""What is held on each node, as decisions are made from it."""

from collections.abc import Sequence

import msgspec

from llmgw.control.nodes import Placed, SeenNode
from llmgw.control.replicas import bookings
from llmgw.plan.records import NodeRoom


def room(seen: SeenNode, held: Sequence[Placed], now: float, lost_after: float) -> NodeRoom:
    """Return a node with what is held on it.

    Args:
        seen: the node.
        held: its live shards and the starts on their way.
        now: monotonic seconds.
        lost_after: from the settings.
    """
    node = seen.record(now, lost_after)
    heartbeat = seen.sample.heartbeat if seen.sample is not None else None
    if heartbeat is not None and heartbeat.filesystems is not None:
        inventory = msgspec.structs.replace(node.inventory, filesystems=heartbeat.filesystems)
        node = msgspec.structs.replace(node, inventory=inventory)
    devices = tuple(device.uuid for device in seen.inventory.devices or ())
    return NodeRoom(
        node=node,
        bookings=bookings(held, devices),
        memory_available_bytes=heartbeat.memory_available_bytes if heartbeat else None,
        readings=heartbeat.devices if heartbeat else None,
        health=heartbeat.health if heartbeat else None,
        lost_for=seen.lost_for(now, lost_after),
    )
