"""Which replicas that were given up go on instead: they still drain, and are wanted again (REC-5).

Until its nodes were told to stop it, a replica that is given up has only left the routes. When what
it gave way to is gone, when its node is taken back, or when more are wanted than a moment ago, it
returns to them: nothing is loaded anew.
"""

from collections.abc import Sequence

from llmgw.model.replica import Replica
from llmgw.model.shard import READY
from llmgw.plan.placement.room import Room
from llmgw.plan.records import Booking, Observed
from llmgw.plan.standing import Standing
from llmgw.plan.wanted import Group


def returning(found: Group, observed: Observed) -> Sequence[Standing]:
    """Return the replicas of a profile that can go on, those first that were given up last.

    Each is as wanted, serves on all its shards, and was never told to stop: an order that was sent
    is carried out, whether it was answered or not.
    """
    lasts = {one.replica: one.lasts for one in observed.drains if not (one.told or one.told_before)}
    return sorted(
        (
            one
            for one in found.leaving
            if one.replica.id in lasts
            and one.outdated is None
            and one.reachable
            and all(shard.state == READY for shard in one.replica.shards)
        ),
        key=lambda one: (lasts[one.replica.id], one.replica.id),
    )


def has_its_place(replica: Replica, future: Room) -> bool:
    """Say whether nobody else is to have what a replica holds, once what goes has gone."""
    for shard in replica.shards:
        space = future.spaces.get(shard.node)
        if space is None or not space.holders().keys().isdisjoint(shard.devices):
            return False
        host = space.node.inventory.host
        if host is None:
            continue
        if not _is_left(host.memory_bytes, space.memory + space.asked, shard.memory_bytes):
            return False
        if not _is_left(host.cpus, space.cores, shard.cpu_cores):
            return False
    return True


def hold(replica: Replica, future: Room) -> None:
    """Hold what a replica has for what it goes on with."""
    for shard in replica.shards:
        future.book(
            shard.node,
            Booking(
                replica=replica.id,
                rank=shard.rank,
                model=replica.model,
                devices=shard.devices,
                memory_bytes=shard.memory_bytes,
                cpu_cores=shard.cpu_cores,
            ),
        )


def _is_left(total: int | None, taken: int, need: int | None) -> bool:
    return total is None or need is None or taken + need <= total
