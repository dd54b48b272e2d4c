"""Who gives way to a replica that is wanted and finds no place (REC-7).

*Eviction*: a replica with nothing to do goes. *Pre-emption*: one that serves goes, of a lower
priority only. Those go first that nobody misses: idle, and beyond the least that their model wants,
or of a model that a request starts again; then the lowest priorities. The smallest set that is
enough is taken.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.place import Placement, place
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import Observed, Refusal
from llmgw.plan.scaling import on_demand
from llmgw.plan.standing import Standing
from llmgw.plan.wanted import Group

IDLE = 60.0
"""Seconds for which nothing was asked of a model before its replicas count as idle."""

COMPARED = 32
"""Nodes on which somebody could give way that are compared: of a thousand full ones the first few,
by who is on them, are as good as all."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A replica that may give way."""

    standing: Standing
    group: Group
    idle: bool
    """It has nothing to do."""
    missed: bool
    """Its model will want another in its place."""
    spare: int | None
    """How many of its model may go at most; None: all, its priority is lower."""

    @property
    def replica(self) -> str:
        """Return its id."""
        return self.standing.replica.id

    @property
    def nodes(self) -> frozenset[str]:
        """Return where it is."""
        return frozenset(shard.node for shard in self.standing.replica.shards)


@dataclass(frozen=True, slots=True)
class Way:
    """Where a replica goes once these have given way."""

    placement: Placement
    gives_way: tuple[Candidate, ...]


def candidates(
    found: Group, groups: Iterable[Group], observed: Observed, given_up: frozenset[str]
) -> list[Candidate]:
    """Return who may give way to one more replica of a profile, those first that go first.

    Nobody gives way to more replicas than the least of a model of which nothing is asked.

    Args:
        found: the profile that lacks a replica.
        groups: all profiles.
        observed: the fleet at this moment.
        given_up: replicas that go already.
    """
    asked = _asked(observed)
    there = _present(found, given_up)
    short = there < found.profile.replicas and not on_demand(found.profile)
    if not short and found.model.name not in asked:
        return []
    idle = _idle(observed, asked)
    least = short or there == 0
    return sorted(
        (
            candidate
            for group in groups
            if group.model.name != found.model.name
            for candidate in _of_group(group, found, idle, given_up, least=least)
        ),
        key=_order,
    )


def make_way(request: Request, there: Sequence[Candidate], future: Room) -> Way | None:
    """Return a smallest set of candidates whose place is enough; None when all are not.

    Args:
        request: for one more replica, which fits nowhere.
        there: who may give way, in order.
        future: the room as it is once everything that goes already has gone.
    """
    if request.profile.nodes > 1:
        return _way_on_many(request, there, future)
    ways: list[tuple[tuple[int, int, int], str, list[Candidate]]] = []
    for node, here in _by_node(there).items():
        if node in request.held_back or node not in future.spaces:
            continue
        enough = _enough(request, node, here, future)
        if enough is not None:
            ways.append((_cost(enough), node, enough))
        if len(ways) >= COMPARED:
            break
    if not ways:
        return None
    _, node, gone = min(ways, key=lambda one: one[:2])
    there_alone = future.spaces[node].without(*(one.replica for one in gone)).room
    answer = place(request, Room(Observed(nodes=(there_alone,), replicas=())))
    return None if isinstance(answer, Refusal) else Way(answer, tuple(gone))


def _by_node(there: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """Return candidates by node, the nodes of those first that go first."""
    found: dict[str, list[Candidate]] = {}
    for one in there:
        for node in sorted(one.nodes):
            found.setdefault(node, []).append(one)
    return found


def after(room: Room, gone: Iterable[str]) -> Room:
    """Return a room as it is once some replicas have gone."""
    ids = tuple(sorted(gone))
    nodes = tuple(space.without(*ids).room for space in room.spaces.values())
    return Room(Observed(nodes=nodes, replicas=()))


def _placed(request: Request, chosen: Sequence[Candidate], future: Room) -> Way | None:
    answer = place(request, after(future, (one.replica for one in chosen)))
    if isinstance(answer, Refusal):
        return None
    return Way(placement=answer, gives_way=tuple(chosen))


def _way_on_many(request: Request, there: Sequence[Candidate], future: Room) -> Way | None:
    """Place as if all had gone, and let those go that are in the way there."""
    everywhere = _within_spares(there)
    answer = place(request, after(future, (one.replica for one in everywhere)))
    if isinstance(answer, Refusal):
        return None
    chosen: dict[str, Candidate] = {}
    for seat in answer.seats:
        here = [one for one in everywhere if seat.node in one.nodes]
        for one in _enough(request, seat.node, here, future) or here:
            chosen[one.replica] = one
    few = _placed(request, sorted(chosen.values(), key=_order), future)
    seats = {seat.node for seat in answer.seats}
    return few or _placed(request, [one for one in everywhere if one.nodes & seats], future)


def _enough(
    request: Request, node: str, there: Sequence[Candidate], future: Room
) -> list[Candidate] | None:
    """Return as few as possible of those on a node, in order, that make room for a shard."""
    space = future.spaces[node]

    def fits(gone: Sequence[Candidate]) -> bool:
        return first_refusal(request, space.without(*(one.replica for one in gone))) is None

    all_ = _within_spares(there)
    if not fits(all_):
        return None
    taken: list[Candidate] = []
    for one in all_:
        if fits(taken):
            break
        taken.append(one)
    for one in sorted(taken, key=_order, reverse=True):
        less = [other for other in taken if other is not one]
        if fits(less):
            taken = less
    return taken


def _of_group(
    group: Group,
    found: Group,
    idle: frozenset[str],
    given_up: frozenset[str],
    *,
    least: bool,
) -> Iterable[Candidate]:
    if group.profile.priority > found.profile.priority:
        return  # an idle spare of it too: the lint would refuse the whole plan
    lower = group.profile.priority < found.profile.priority
    spare = _present(group, given_up) - max(1, group.profile.replicas)
    for one in (*group.good, *group.old):
        if not one.reachable or one.replica.id in given_up:
            continue
        rests = one.ready and one.replica.id in idle
        missed = not rests or (spare <= 0 and not on_demand(group.profile))
        if lower or (least and rests and spare > 0):
            yield Candidate(one, group, idle=rests, missed=missed, spare=None if lower else spare)


def _present(group: Group, given_up: frozenset[str]) -> int:
    return sum(one.replica.id not in given_up for one in (*group.good, *group.old))


def _asked(observed: Observed) -> frozenset[str]:
    """Return the models of which something is asked, or was a moment ago."""
    return frozenset(
        one.model
        for one in observed.demands
        if one.queued or (one.idle_for is not None and one.idle_for < IDLE)
    )


def _idle(observed: Observed, asked: frozenset[str]) -> frozenset[str]:
    """Return the replicas that are known to have nothing to do, and had nothing for long."""
    nothing = {load.replica for load in observed.loads if load.in_flight == 0}
    return frozenset(
        one.id for one in observed.replicas if one.id in nothing and one.model not in asked
    )


def _within_spares(there: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in order, but of no model more than may go."""
    count: dict[tuple[str, str], int] = {}
    kept = []
    for one in there:
        key = (one.group.model.name, one.group.profile.name)
        count[key] = count.get(key, 0) + 1
        if one.spare is None or count[key] <= one.spare:
            kept.append(one)
    return kept


def _order(one: Candidate) -> tuple[bool, int, bool, bool, float, str]:
    since = one.standing.replica.since
    newest = -since if since is not None else float("-inf")
    priority = one.group.profile.priority
    return (one.missed, priority, not one.idle, one.standing.ready, newest, one.replica)


def _cost(chosen: Sequence[Candidate]) -> tuple[int, int, int]:
    """Return what a set costs: how many are missed, the highest priority, how many there are."""
    missed = [one for one in chosen if one.missed]
    highest = max((one.group.profile.priority for one in missed), default=0)
    return (len(missed), highest, len(chosen))
