"""What clearing a place on a node costs at least, by counting alone: nothing is tried for it.

So that of a thousand nodes only those few are tried on which it may be cheapest.
"""

from collections.abc import Iterable, Mapping, Sequence

from llmgw.plan.giveway import Candidate, Cost
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space

Amounts = tuple[int, int, int]
"""Devices, bytes of host memory, CPU cores."""

NOTHING: Amounts = (0, 0, 0)


def lack(request: Request, space: Space) -> Amounts:
    """Return what others have to leave at least before a node can take a shard."""
    profile, host = request.profile, space.node.inventory.host
    devices = profile.gpus - _most_free(request, space) if profile.gpus else 0
    memory = cores = 0
    if host is not None and request.memory_bytes is not None and host.memory_bytes is not None:
        taken = space.memory + (space.asked if request.reserved_bytes else 0)
        memory = request.memory_bytes + taken - host.memory_bytes
    if host is not None and profile.cpu_cores is not None and host.cpus is not None:
        cores = profile.cpu_cores + space.cores - host.cpus
    return (max(0, devices), max(0, memory), max(0, cores))


def held(space: Space) -> Mapping[str, Amounts]:
    """Return what each replica has on a node."""
    found: dict[str, Amounts] = {}
    for one in space.bookings:
        devices, memory, cores = found.get(one.replica, NOTHING)
        found[one.replica] = (
            devices + len(one.devices),
            memory + (one.memory_bytes or 0),
            cores + (one.cpu_cores or 0),
        )
    return found


def least_cost(
    lacks: Amounts, there: Sequence[Candidate], has: Mapping[str, Amounts]
) -> Cost | None:
    """Return what no set of those on a node that is enough can cost less than.

    Args:
        lacks: what has to become free.
        there: who may go.
        has: what each of them has.

    Returns:
        None where all of them have too little.
    """
    missed = [one for one in there if one.missed]
    fewest = fewest_missed = 0
    for kind, need in enumerate(lacks):
        if not need:
            continue
        unmissed = sum(has.get(one.replica, NOTHING)[kind] for one in there if not one.missed)
        count = _fewest((has.get(one.replica, NOTHING)[kind] for one in there), need)
        of_missed = _fewest(
            (has.get(one.replica, NOTHING)[kind] for one in missed), need - unmissed
        )
        if count is None or of_missed is None:
            return None
        fewest, fewest_missed = max(fewest, count), max(fewest_missed, of_missed)
    if not fewest_missed:
        return (0, 0, 0, fewest)
    lowest = min(one.group.profile.priority for one in missed)
    busy = max(0, fewest_missed - sum(one.idle for one in missed))
    return (fewest_missed, lowest, busy, fewest)


def _fewest(amounts: Iterable[int], need: int) -> int | None:
    """Return how many have so much together, those with most first; None: all have too little."""
    if need <= 0:
        return 0
    for count, amount in enumerate(sorted(amounts, reverse=True), start=1):
        need -= amount
        if need <= 0:
            return count
    return None


def _most_free(request: Request, space: Space) -> int:
    """Return how many devices of one class are free, whatever memory others have of them."""
    free, wanted = space.free(), request.profile.device_classes
    return max((len(free[name]) for name in free if not wanted or name in wanted), default=0)
