"""`place`: which nodes and devices one more replica takes, or why it can't be placed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmgw.plan.placement.devices import take
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.kinds import MILDEST
from llmgw.plan.placement.lonely import refusals
from llmgw.plan.placement.networks import NVLINK, fabrics_of, networks_of
from llmgw.plan.placement.rated import best, rated
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.placement.scores import scores
from llmgw.plan.placement.several import Group, find_group, no_address
from llmgw.plan.records import FITS, Booking, Candidate, Refusal, Verdict
from llmgw.plan.words import some


@dataclass(frozen=True, slots=True)
class Seat:
    """One shard's node and devices."""

    node: str
    address: str | None
    devices: tuple[str, ...]
    ports: tuple[str, ...] = ()
    """Its ports on the network of the replica: `mlx5_0/1`; none of a replica of one node."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a replica goes: a seat a shard, rank 0 first.

    Of several nodes the scores are the lowest that one of them has by each rule.
    """

    seats: tuple[Seat, ...]
    scores: dict[str, int]
    network: str | None = None
    """What joins the nodes of a replica of several, in words."""
    nvlink_domain: str | None = None
    """The NVLink domain that joins them: `cluster/clique`."""


def place(request: Request, room: Room) -> Placement | Refusal:
    """Return where one more replica goes, or every node and why it was turned away.

    Nothing is booked. Of equally good nodes the first by id is taken.
    """
    found = find(request, room)
    if found is not None:
        return found
    return refuse(request, room)


def refuse(request: Request, room: Room) -> Refusal:
    """Return every node and why it was turned away, for a request that can't be placed."""
    several = request.profile.nodes > 1
    return _refusal(request, (refusals if several else _verdicts)(request, room))


def find(request: Request, room: Room) -> Placement | None:
    """Return where one more replica goes; None, without asking why, when it can't be placed."""
    if request.profile.nodes > 1:
        group = find_group(request, room)
        return seated(group, room.spaces) if group is not None else None
    name = best(request, room)
    return placed_on(request, room.spaces[name]) if name is not None else None


def placed_on(request: Request, space: Space) -> Placement:
    """Return what a replica of one node gets of a node on which it fits."""
    return Placement(seats=(_seat(request, space),), scores=scores(request, space))


def seated(group: Group, spaces: Mapping[str, Space]) -> Placement:
    """Return what the nodes of a group give to a replica."""
    seats, found = [], dict[str, int]()
    for member in group.members:
        space, there = spaces[member.node], member.attachment
        seats.append(_seat(group.request, space, there.adapters or None, there.ports))
        for rule, score in scores(group.request, space).items():
            found[rule] = min(score, found.get(rule, 100))
    joined = group.network.kind == NVLINK
    return Placement(
        seats=tuple(seats),
        scores=found,
        network=group.network.words,
        nvlink_domain=group.network.name if joined else None,
    )


def book(
    replica: str, request: Request, placement: Placement, room: Room, *, waits: bool = False
) -> None:
    """Hold what a placement gives to a replica, for the rest of the plan.

    Args:
        replica: its id, or words for one that has none yet.
        request: what is placed.
        placement: where.
        room: is changed.
        waits: it can't start there yet; what it asks for and does not hold is kept for it too.
    """
    asks = request.memory_bytes if waits and request.reserved_bytes is None else None
    for rank, seat in enumerate(placement.seats):
        booking = Booking(
            replica=replica,
            rank=rank,
            model=request.model.name,
            devices=seat.devices,
            memory_bytes=request.reserved_bytes,
            cpu_cores=request.profile.cpu_cores,
            weights=request.weights,
            disk_bytes=request.disk_bytes,
            asks_bytes=asks,
        )
        room.book(seat.node, booking)


def judge(request: Request, space: Space) -> Candidate:
    """Return what all rules say of one node, with scores and devices when it fits.

    Of a replica of several nodes: whether it could take a shard, whatever others can.
    """
    node = space.node.id
    verdict = first_refusal(request, space) or request.held_back.get(node) or _alone(request, space)
    if verdict is not None:
        return Candidate(node=node, verdict=verdict)
    return Candidate(
        node=node,
        verdict=Verdict(kind=FITS, rule="all"),
        scores=scores(request, space),
        devices=_seat(request, space).devices,
    )


def summary(candidates: Iterable[Candidate]) -> str:
    """Return why nothing fits in one line: the nodes that are nearest to fitting first."""
    refused = [one for one in candidates if one.verdict.kind != FITS]
    if not refused:
        return "there is no node"
    refused.sort(key=lambda one: (MILDEST.index(one.verdict.kind), one.node))
    return some([one.verdict.words for one in refused], "; ")


def _verdicts(request: Request, room: Room) -> dict[str, Verdict]:
    """Return why each node is turned away; nothing fits when this is asked."""
    return {name: one for name, one in rated(request, room).items() if isinstance(one, Verdict)}


def _alone(request: Request, space: Space) -> Verdict | None:
    """Return why a node by itself can be in no group: its own networks tell."""
    if request.profile.nodes == 1:
        return None
    found = networks_of(space, request.profile.fabric, fabrics_of((space,)))
    return found if isinstance(found, Verdict) else no_address(space)


def _seat(
    request: Request,
    space: Space,
    adapters: frozenset[str] | None = None,
    ports: tuple[str, ...] = (),
) -> Seat:
    devices = take(request, space, adapters) if request.profile.gpus else ()
    return Seat(
        node=space.node.id,
        address=space.node.address,
        devices=tuple(device.uuid for device in devices),
        ports=ports,
    )


def _refusal(request: Request, verdicts: Mapping[str, Verdict]) -> Refusal:
    candidates = tuple(Candidate(node=name, verdict=verdicts[name]) for name in sorted(verdicts))
    return Refusal(
        model=request.model.name,
        profile=request.profile.name,
        candidates=candidates,
        words=summary(candidates),
    )
