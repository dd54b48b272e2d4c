"""What the shards of this node hold: nothing of it is given to another (invariant 3).

Placement sees to that. This is the last look before a start, for a command that comes twice, or
after the one that took it back.
"""

from collections.abc import Callable, Iterable

from llmgw.base.errors import Refused
from llmgw.base.units import show_bytes
from llmgw.model.shard import ShardSpec
from llmgw_agent.engines.adapter import NodeFacts
from llmgw_agent.supervise.shard import Shard


def check_held(spec: ShardSpec, shards: Iterable[Shard], facts: Callable[[], NodeFacts]) -> None:
    """Refuse a shard that is given what others hold until nothing of them is left.

    Args:
        spec: the shard that is to start.
        shards: all of this node.
        facts: what the node is known to have; what is not known is not looked at.

    Raises:
        Refused: a device, or memory, in words.
    """
    live = [shard for shard in shards if not shard.ended]
    for shard in live:
        both = sorted(set(spec.devices) & set(shard.spec.devices))
        if both:
            raise Refused(f"{', '.join(both)}: held by {shard.name}, which is {shard.state}")
    reserved = sum(shard.spec.memory_bytes or 0 for shard in live)
    memory = facts().memory_bytes if reserved and spec.memory_bytes else None
    if memory is not None and spec.memory_bytes and reserved + spec.memory_bytes > memory:
        have, needs = show_bytes(max(0, memory - reserved)), show_bytes(spec.memory_bytes)
        raise Refused(f"{have} of memory is not reserved, needs {needs}")
