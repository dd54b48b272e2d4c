"""`place`: which nodes and devices one more replica takes, or why it can't be placed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from llmgw.model.device import Device
from llmgw.plan.placement.devices import take
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.groups import fabric_of
from llmgw.plan.placement.rank import Ranking
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.placement.scores import scores, total, total_of_stranger
from llmgw.plan.records import (
    FITS,
    NEVER,
    NOT_NOW,
    NOT_UNLESS_EVICTED,
    Booking,
    Candidate,
    Refusal,
    Verdict,
)
from llmgw.plan.words import some

_OWN_RANKING = 32
"""Above so many nodes that know a model, it gets a ranking of its own."""

_Worth = Callable[[Request, Space], int]

_MILDEST = (FITS, NOT_NOW, NOT_UNLESS_EVICTED, NEVER)


@dataclass(frozen=True, slots=True)
class Seat:
    """One shard's node and devices."""

    node: str
    address: str | None
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a replica goes: a seat a shard, rank 0 first, and the scores of that one."""

    seats: tuple[Seat, ...]
    scores: dict[str, int]


def place(request: Request, room: Room) -> Placement | Refusal:
    """Return where one more replica goes, or every node and why it was turned away.

    Nothing is booked. Of equally good nodes the first by id is taken.
    """
    problem = _impossible(request)
    if problem is not None:
        return _refusal(request, {name: problem(name) for name in room.spaces})
    if request.profile.nodes > 1:
        return _place_on_many(request, room)
    name = _best(request, room)
    if name is None:
        return _refusal(request, _verdicts(request, room))
    return Placement(
        seats=(_seat(request, room.spaces[name]),), scores=scores(request, room.spaces[name])
    )


def book(replica: str, request: Request, placement: Placement, room: Room) -> None:
    """Hold what a placement gives to a replica, for the rest of the plan."""
    for rank, seat in enumerate(placement.seats):
        booking = Booking(
            replica=replica,
            rank=rank,
            model=request.model.name,
            devices=seat.devices,
            memory_bytes=request.reserved_bytes,
            cpu_cores=request.profile.cpu_cores,
        )
        room.book(seat.node, booking)


def judge(request: Request, space: Space) -> Candidate:
    """Return what all rules say of one node, with scores and devices when it fits."""
    node = space.node.id
    verdict = _turned_away(request, space)
    if verdict is not None:
        return Candidate(node=node, verdict=verdict)
    return Candidate(
        node=node,
        verdict=Verdict(kind=FITS, rule="all"),
        scores=scores(request, space),
        devices=_seat(request, space).devices,
    )


def _turned_away(request: Request, space: Space) -> Verdict | None:
    """Return why a node can't take a shard: former failures, a filter, or its network."""
    verdict = request.held_back.get(space.node.id) or first_refusal(request, space)
    if verdict is not None or request.profile.nodes == 1:
        return verdict
    fabric = fabric_of(space.node, request.profile.fabric)
    if isinstance(fabric, Verdict):
        return fabric
    if space.node.address is None:
        words = f"{space.node.id}: its address is not known"
        return Verdict(kind=NOT_NOW, rule="fabric", words=words)
    return None


def summary(candidates: Iterable[Candidate]) -> str:
    """Return why nothing fits in one line: the nodes that are nearest to fitting first."""
    refused = [one for one in candidates if one.verdict.kind != FITS]
    if not refused:
        return "there is no node"
    refused.sort(key=lambda one: (_MILDEST.index(one.verdict.kind), one.node))
    return some([one.verdict.words for one in refused], "; ")


def _impossible(request: Request) -> "_Problem | None":
    """Return what no node could help with: the catalog refuses it too (PLC-2)."""
    profile = request.profile
    parallel = max(
        profile.gpus, profile.nodes, profile.tensor_parallel or 1, profile.pipeline_parallel or 1
    )
    if parallel > 1 and any("-mig-" in name for name in profile.device_classes):
        return _Problem("mig", "a MIG class takes one instance: gpus, nodes, tp and pp are 1")
    if profile.nodes > 1 and profile.gpus == 0:
        return _Problem("fabric", "a replica of several nodes needs GPUs on each")
    return None


@dataclass(frozen=True, slots=True)
class _Problem:
    rule: str
    words: str

    def __call__(self, node: str) -> Verdict:
        return Verdict(kind=NEVER, rule=self.rule, words=f"{node}: {self.words}")


def _best(request: Request, room: Room) -> str | None:
    """Return the best node: of strangers from the ranking, of those that know the model by hand."""
    known = _known(request, room)
    if len(known) > _OWN_RANKING:
        ranking = _ranking(room, ("model", request.model.name, request.shape()), request, total)
        best = ranking.best(request.held_back)
        return best[1] if best is not None else None
    found: list[tuple[int, str]] = []
    stranger = _stranger_ranking(request, room).best(known)
    if stranger is not None:
        found.append((-stranger[0], stranger[1]))
    for name in known:
        space = room.spaces[name]
        if _turned_away(request, space) is None:
            found.append((-total(request, space), name))
    return min(found)[1] if found else None


def _known(request: Request, room: Room) -> set[str]:
    """Return the nodes that differ for this request: they hold, run or failed to start it."""
    known = set(room.holding(request.weights))
    known.update(room.running(request.model.name))
    known.update(name for name in request.held_back if name in room.spaces)
    return known


def _stranger_ranking(request: Request, room: Room) -> Ranking:
    """Return the ranking that all alike requests share: as if no node held anything for them."""
    return _ranking(room, request.shape(), replace(request, weights=None), total_of_stranger)


def _ranking(room: Room, key: object, request: Request, worth: _Worth) -> Ranking:
    ranking = room.rankings.get(key)
    if not isinstance(ranking, Ranking):

        def rate(space: Space) -> int | Verdict:
            refused = first_refusal(request, space)
            return worth(request, space) if refused is None else refused

        ranking = room.rankings[key] = Ranking(room, rate)
    return ranking


def _verdicts(request: Request, room: Room) -> dict[str, Verdict]:
    """Return why each node is turned away; nothing fits when this is asked."""
    verdicts = _stranger_ranking(request, room).verdicts()
    for name in _known(request, room):
        refused = _turned_away(request, room.spaces[name])
        if refused is not None:
            verdicts[name] = refused
    return verdicts


def _place_on_many(request: Request, room: Room) -> Placement | Refusal:
    """Return nodes of one physical network, the best first; a node that can't say is kept apart."""
    need = request.profile.nodes
    verdicts: dict[str, Verdict] = {}
    by_fabric: dict[str, list[tuple[int, str]]] = {}
    for name, space in room.spaces.items():
        refused = _turned_away(request, space)
        if refused is not None:
            verdicts[name] = refused
            continue
        fabric = str(fabric_of(space.node, request.profile.fabric))
        by_fabric.setdefault(fabric, []).append((-total(request, space), name))
    groups = [sorted(nodes)[:need] for nodes in by_fabric.values() if len(nodes) >= need]
    if groups:
        chosen = min(groups, key=lambda group: (sum(worth for worth, _ in group), group))
        seats = tuple(_seat(request, room.spaces[name]) for _, name in chosen)
        return Placement(seats=seats, scores=scores(request, room.spaces[chosen[0][1]]))
    for fabric, nodes in by_fabric.items():
        for _, name in nodes:
            words = f"{name}: {len(nodes)} of {need} nodes that fit are on {fabric}"
            verdicts[name] = Verdict(kind=NOT_UNLESS_EVICTED, rule="fabric", words=words)
    return _refusal(request, verdicts)


def _seat(request: Request, space: Space) -> Seat:
    devices: tuple[Device, ...] = take(request.profile, space) if request.profile.gpus else ()
    return Seat(
        node=space.node.id,
        address=space.node.address,
        devices=tuple(device.uuid for device in devices),
    )


def _refusal(request: Request, verdicts: Mapping[str, Verdict]) -> Refusal:
    candidates = tuple(Candidate(node=name, verdict=verdicts[name]) for name in sorted(verdicts))
    return Refusal(
        model=request.model.name,
        profile=request.profile.name,
        candidates=candidates,
        words=summary(candidates),
    )
