"""Who gives way to a replica that is wanted and finds no place (REC-7).

*Eviction*: a replica with nothing to do goes. *Pre-emption*: one that serves goes, of a lower
priority only. Those go first that nobody misses: idle, and beyond the least that their model wants,
or of a model that a request starts again; then the lowest priorities. The smallest set that is
enough is taken.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.model.catalog import Profile
from llmgw.plan.placement.filters import fits
from llmgw.plan.placement.place import Placement, find, placed_on
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import Observed, Verdict
from llmgw.plan.scaling import on_demand
from llmgw.plan.standing import Standing
from llmgw.plan.wanted import Group

IDLE = 60.0
"""Seconds for which nothing was asked of a model before its replicas count as idle."""

COMPARED = 32
"""Nodes on which somebody could give way that are compared: of a thousand full ones the first few,
by who is on them, are as good as all."""

Key = tuple[str, str]
"""Model and profile."""


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
    """How many of its profile may go at most; None: all."""

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


def least(profile: Profile) -> int:
    """Return how many replicas of a profile others of the same priority have to make room for."""
    return 1 if on_demand(profile) else profile.replicas


def candidates(
    found: Group,
    groups: Iterable[Group],
    observed: Observed,
    leaving: Iterable[str],
    *,
    lacks_least: bool,
) -> list[Candidate]:
    """Return who may give way to more replicas of a profile, those first that go first.

    Nobody gives way to more replicas than the least of a model of which nothing is asked.

    Args:
        found: the profile that lacks replicas.
        groups: all profiles.
        observed: the fleet at this moment.
        leaving: replicas that go already.
        lacks_least: it has not the least that it may have; idle ones of its own priority go too.
    """
    asked = _asked(observed)
    short = lacks_least and not on_demand(found.profile)
    if not short and found.model.name not in asked:
        return []
    idle, gone = _idle(observed, asked), frozenset(leaving)
    return sorted(
        (
            candidate
            for group in groups
            if group.model.name != found.model.name
            for candidate in _of_group(group, found, idle, gone, equals=lacks_least)
        ),
        key=_order,
    )


def outdated(found: Group, leaving: Iterable[str], but: Iterable[str]) -> list[Candidate]:
    """Return the replicas of a profile that may go so that one that is as wanted has their place.

    Never one that is outdated only because its node is draining: the place of its successor is on
    another node, and stopping it would make no room there.

    Args:
        found: the profile.
        leaving: replicas that go already.
        but: nodes on which they stay: a successor failed to start there, or one does not end there.
    """
    gone, kept = frozenset(leaving), frozenset(but)
    there = [
        Candidate(one, found, idle=False, missed=True, spare=None)
        for one in found.old
        if one.reachable and not one.on_draining and one.replica.id not in gone
    ]
    return sorted((one for one in there if not one.nodes & kept), key=_order)


class Ways:
    """The ways to make room for the replicas that one profile lacks, one after the other.

    What is found out of a node is kept until something is booked on it.

    Args:
        request: for one more replica.
        there: who may give way, in order.
        future: the room as it is once everything that goes already has gone.
    """

    def __init__(self, request: Request, there: Sequence[Candidate], future: Room) -> None:
        self._request = request
        self._there = there
        self._gone: set[str] = set()
        self._future = future
        self._spares = {_key(one): one.spare for one in there if one.spare is not None}
        self._by_node: dict[str, list[Candidate]] = {}
        for one in there:
            for node in sorted(one.nodes & future.spaces.keys()):
                self._by_node.setdefault(node, []).append(one)
        self._enough: dict[str, list[Candidate] | None] = {}
        self._seen = len(future.booked)

    def find(self, held_back: Mapping[str, Verdict]) -> Way | None:
        """Return a smallest set whose place is enough; None when all are not.

        Args:
            held_back: nodes on which nobody gives way now.
        """
        if self._request.profile.nodes > 1:
            return self._on_many(held_back)
        self._forget_booked()
        ways: list[tuple[tuple[int, int, int], str, list[Candidate]]] = []
        for node in tuple(self._by_node):
            if len(ways) >= COMPARED:
                break
            if node in held_back:
                continue
            enough = self._enough_on(node)
            if enough is None:
                del self._by_node[node]  # less and less can go there
            else:
                ways.append((_cost(enough), node, enough))
        if not ways:
            return None
        _, node, gone = min(ways, key=lambda one: one[:2])
        freed = self._future.spaces[node].without(*(one.replica for one in gone))
        return Way(placed_on(self._request, freed), tuple(gone))

    def take(self, way: Way) -> None:
        """Let those of a way go: they are no candidates any more, and their places are free."""
        gone = {one.replica for one in way.gives_way}
        spent = Counter(_key(one) for one in way.gives_way if one.spare is not None)
        self._gone |= gone
        nodes = {node for one in way.gives_way for node in one.nodes}
        for node in sorted(nodes & self._future.spaces.keys()):
            if node in self._by_node:
                there = self._by_node[node]
                self._by_node[node] = [one for one in there if one.replica not in gone]
            self._future.spaces[node] = self._future.spaces[node].without(*gone)
            self._future.booked.append(node)
        for key, count in spent.items():
            self._spares[key] -= count
        if spent:
            self._enough = {}

    def _forget_booked(self) -> None:
        booked = self._future.booked
        for node in booked[self._seen :]:
            self._enough.pop(node, None)
        self._seen = len(booked)

    def _enough_on(self, node: str) -> list[Candidate] | None:
        if node not in self._enough:
            self._enough[node] = self._find_enough(node, self._by_node[node])
        return self._enough[node]

    def _find_enough(self, node: str, there: Sequence[Candidate]) -> list[Candidate] | None:
        """Return as few as possible of those on a node, in order, that make room for a shard."""
        space = self._future.spaces[node]

        def enough(gone: Sequence[Candidate]) -> bool:
            return fits(self._request, space.without(*(one.replica for one in gone)))

        all_ = self._within_spares(there)
        if not enough(all_):
            return None
        taken: list[Candidate] = []
        for one in all_:
            if enough(taken):
                break
            taken.append(one)
        for one in sorted(taken, key=_order, reverse=True):
            less = [other for other in taken if other is not one]
            if enough(less):
                taken = less
        return taken

    def _on_many(self, held_back: Mapping[str, Verdict]) -> Way | None:
        """Place as if all had gone, and let those go that are in the way there."""
        request = replace(self._request, held_back=held_back)
        everywhere = self._within_spares([o for o in self._there if o.replica not in self._gone])
        answer = find(request, after(self._future, (one.replica for one in everywhere)))
        if answer is None:
            return None
        chosen: dict[str, Candidate] = {}
        for seat in answer.seats:
            here = [one for one in everywhere if seat.node in one.nodes]
            for one in self._find_enough(seat.node, here) or here:
                chosen[one.replica] = one
        seats = {seat.node for seat in answer.seats}
        few = self._placed(request, sorted(chosen.values(), key=_order))
        return few or self._placed(request, [one for one in everywhere if one.nodes & seats])

    def _placed(self, request: Request, chosen: Sequence[Candidate]) -> Way | None:
        answer = find(request, after(self._future, (one.replica for one in chosen)))
        return Way(answer, tuple(chosen)) if answer is not None else None

    def _within_spares(self, there: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates in order, but of no profile more than it can spare."""
        count: Counter[Key] = Counter()
        kept = []
        for one in there:
            key = _key(one)
            count[key] += one.spare is not None
            if one.spare is None or count[key] <= self._spares[key]:
                kept.append(one)
        return kept


def after(room: Room, gone: Iterable[str]) -> Room:
    """Return a room as it is once some replicas have gone."""
    ids = tuple(sorted(gone))
    nodes = tuple(space.without(*ids).room for space in room.spaces.values())
    return Room(Observed(nodes=nodes, replicas=()))


def _of_group(
    group: Group, found: Group, idle: frozenset[str], leaving: frozenset[str], *, equals: bool
) -> Iterable[Candidate]:
    if group.profile.priority > found.profile.priority:
        return  # an idle spare of it too: the lint would refuse the whole plan
    lower = group.profile.priority < found.profile.priority
    there = sum(one.replica.id not in leaving for one in (*group.good, *group.old))
    # One that is started to take another's place is no spare: only both together are too many.
    spare = min(there, group.wanted) - max(1, group.profile.replicas)
    for one in (*group.good, *group.old):
        if not one.reachable or one.replica.id in leaving:
            continue
        rests = one.ready and one.replica.id in idle
        missed = not rests or (spare <= 0 and not on_demand(group.profile))
        if lower or (equals and rests and spare > 0):
            yield Candidate(one, group, idle=rests, missed=missed, spare=None if lower else spare)


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


def _key(one: Candidate) -> Key:
    return (one.group.model.name, one.group.profile.name)
