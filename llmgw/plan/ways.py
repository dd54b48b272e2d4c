"""Where room can be made at the least cost, of all nodes that there are (REC-7)."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from llmgw.plan.costs import Costs, Giving
from llmgw.plan.giveway import Candidate, Cost, cost, order
from llmgw.plan.placement.filters import fits
from llmgw.plan.placement.networks import Network, wiring
from llmgw.plan.placement.place import Placement, placed_on, seated
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.placement.scores import total
from llmgw.plan.placement.several import Member, classes, grouped, of_class, preferred
from llmgw.plan.records import Observed, Verdict


@dataclass(frozen=True, slots=True)
class Way:
    """Where a replica goes once these have given way."""

    placement: Placement
    gives_way: tuple[Candidate, ...]


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
        self._future = future
        self._giving = Giving(there, future)
        self._seen = len(future.booked)
        alike = [request]
        if request.profile.nodes > 1:
            alike = [of_class(request, name) for name in classes(request, future)]
        self._costs = [Costs(one, self._giving, future) for one in alike]

    def find(self, held_back: Mapping[str, Verdict]) -> Way | None:
        """Return the way that costs least; None when all that may go are not enough.

        Args:
            held_back: nodes on which nobody gives way now.
        """
        self._look_at_booked()
        if self._request.profile.nodes == 1:
            return self._on_one(held_back)
        found = [_on_many(costs, self._giving, self._future, held_back) for costs in self._costs]
        ways = [way for way in found if way is not None]
        return min(ways, key=lambda way: cost(way.gives_way), default=None)

    def take(self, way: Way) -> None:
        """Let those of a way go: they are no candidates any more, and their places are free."""
        gone = [one.replica for one in way.gives_way]
        self._giving.take(way.gives_way)
        nodes = {node for one in way.gives_way for node in one.nodes}
        for node in sorted(nodes & self._future.spaces.keys()):
            self._future.spaces[node] = self._future.spaces[node].without(*gone)
            self._future.booked.append(node)

    def _look_at_booked(self) -> None:
        booked = self._future.booked
        for node in dict.fromkeys(booked[self._seen :]):
            for costs in self._costs:
                costs.look_again(node)
        self._seen = len(booked)

    def _on_one(self, held_back: Mapping[str, Verdict]) -> Way | None:
        (costs,) = self._costs
        with closing(costs.in_order(held_back)) as nodes:
            for _, node, gone in nodes:
                space = self._future.spaces[node].without(*(one.replica for one in gone))
                return Way(placed_on(self._request, space), tuple(gone))
        return None


def after(room: Room, gone: Iterable[str]) -> Room:
    """Return a room as it is once some replicas have gone."""
    ids = tuple(sorted(gone))
    nodes = tuple(space.without(*ids).room for space in room.spaces.values())
    return Room(Observed(nodes=nodes, replicas=()))


Priced = tuple[Cost, str]
"""A node and what a place there costs."""


def _on_many(
    costs: Costs, giving: Giving, future: Room, held_back: Mapping[str, Verdict]
) -> Way | None:
    """Return the cheapest group of nodes of one network, for devices of one class.

    Nodes are looked at as long as they cost no more than the dearest of a group that is complete.
    """
    request, need = costs.request, costs.request.profile.nodes
    on, found = wiring(future, request.profile.fabric), dict[Network, list[Priced]]()
    best: _Cleared | None = None
    with closing(costs.in_order(held_back)) as nodes:
        dearest: Cost | None = None
        for price, node, _ in nodes:
            if dearest is not None and price > dearest:
                best = _best(found, request, giving, future)
                if best is not None:
                    break
                dearest = price
            if future.spaces[node].node.address is None:
                continue
            for network in on.of.get(node, ()):
                there = found.setdefault(network, [])
                there.append((price, node))
                if dearest is None and len(there) >= need:
                    dearest = price
        else:
            best = _best(found, request, giving, future)
    return best.way() if best is not None else None


@dataclass(frozen=True, slots=True)
class _Cleared:
    """The nodes of a group as they are once some have gone."""

    request: Request
    network: Network
    spaces: Mapping[str, Space]
    members: tuple[Member, ...]
    gone: tuple[Candidate, ...]

    def way(self) -> Way:
        group = grouped(self.network, self.members, self.request, len(self.members))
        return Way(seated(group, self.spaces), self.gone)


def _best(
    found: Mapping[Network, Sequence[Priced]], request: Request, giving: Giving, future: Room
) -> _Cleared | None:
    """Return the cheapest group of those nodes; of equals on the network that is taken first."""
    groups = [
        _cleared(network, there, request, giving, future)
        for network, there in sorted(found.items())
        if len(there) >= request.profile.nodes
    ]
    cleared = [one for one in groups if one is not None]
    return min(cleared, key=lambda one: cost(one.gone), default=None)


def _cleared(
    network: Network, there: Sequence[Priced], request: Request, giving: Giving, future: Room
) -> _Cleared | None:
    """Clear the cheapest nodes of a network, or those of one that goes once for several of them."""
    in_turn = _in_turn(network, there, request, future)
    starts = [(), *_spans(in_turn, giving)]
    found = [
        _clear([*start, *(node for node in in_turn if node not in start)],
               network, request, giving, future)
        for start in starts
    ]  # fmt: skip
    cleared = [one for one in found if one is not None]
    return min(cleared, key=lambda one: cost(one.gone), default=None)


SPANS = 16
"""How many that lie on several nodes are tried for a place of several nodes, at most."""


def _spans(nodes: Sequence[str], giving: Giving) -> list[tuple[str, ...]]:
    """Return the nodes of each candidate that lies on several of some nodes, in order."""
    there, found = set(nodes), dict[Candidate, tuple[str, ...]]()
    for node in nodes:
        for one in giving.on.get(node, ()):
            if one not in found and len(one.nodes & there) > 1:
                found[one] = tuple(name for name in nodes if name in one.nodes)
    return [found[one] for one in sorted(found, key=order)[:SPANS]]


def _clear(
    nodes: Iterable[str], network: Network, request: Request, giving: Giving, future: Room
) -> _Cleared | None:
    """Clear nodes of a network in turn until there are enough: who is on two goes once."""
    on, gone = wiring(future, request.profile.fabric), list[Candidate]()
    members: list[Member] = []
    for node in nodes:
        if len(members) == request.profile.nodes:
            break
        more = giving.enough(request, future.spaces[node], gone)
        if more is not None:
            gone += more
            members.append(Member(node, 0, on.of[node][network]))
    if len(members) < request.profile.nodes:
        return None
    gone = _needed(gone, [future.spaces[one.node] for one in members], request)
    ids = [one.replica for one in gone]
    spaces = {one.node: future.spaces[one.node].without(*ids) for one in members}
    return _Cleared(request, network, spaces, tuple(members), tuple(gone))


def _in_turn(
    network: Network, there: Sequence[Priced], request: Request, future: Room
) -> list[str]:
    """Return nodes, the cheapest first; of the dearest that are taken, those of one leaf first."""
    need = request.profile.nodes
    dearest = there[need - 1][0]
    cheap = [node for price, node in there if price < dearest]
    equal = [node for price, node in there if price == dearest]
    on = wiring(future, request.profile.fabric)
    members = [
        Member(node, total(request, future.spaces[node]), on.of[node][network]) for node in equal
    ]
    taken = [one.node for one in preferred(members, need - len(cheap))]
    rest = [node for _, node in there if node not in cheap and node not in taken]
    return [*cheap, *taken, *rest]


def _needed(
    gone: Sequence[Candidate], spaces: Sequence[Space], request: Request
) -> list[Candidate]:
    """Return those without whom there is no room on all nodes, in order."""
    kept = sorted(gone, key=order)
    for one in reversed(tuple(kept)):
        less = [other for other in kept if other is not one]
        ids = [other.replica for other in less]
        if all(fits(request, space.without(*ids)) for space in spaces):
            kept = less
    return kept
