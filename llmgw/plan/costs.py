"""Nodes in the order of what clearing a place there costs, worked out as far as it is asked for."""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Generator, Sequence
from dataclasses import dataclass, field
from itertools import count

from llmgw.plan.bounds import NOTHING, Amounts, held, lack, least_cost
from llmgw.plan.giveway import Candidate, Cost, Key, cost, order
from llmgw.plan.placement.filters import fits
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space


class Giving:
    """Who may still give way, and how many of each profile.

    Args:
        there: all of them, in order.
        future: the room as it is once everything that goes already has gone.
    """

    def __init__(self, there: Sequence[Candidate], future: Room) -> None:
        self.spares: dict[Key, int] = {one.key: one.spare for one in there if one.spare is not None}
        self.on: dict[str, list[Candidate]] = {}
        for one in there:
            for node in sorted(one.nodes & future.spaces.keys()):
                self.on.setdefault(node, []).append(one)
        self.spent = 0
        """How often some that are counted went: what others of theirs cost is out of date then."""

    def take(self, gone: Sequence[Candidate]) -> None:
        """Let some go: they are no candidates any more."""
        ids = {one.replica for one in gone}
        for node in {node for one in gone for node in one.nodes} & self.on.keys():
            self.on[node] = [one for one in self.on[node] if one.replica not in ids]
        counted = Counter(one.key for one in gone if one.spare is not None)
        for key, number in counted.items():
            self.spares[key] -= number
        self.spent += bool(counted)

    def within_spares(
        self, there: Sequence[Candidate], given: Sequence[Candidate] = ()
    ) -> list[Candidate]:
        """Return candidates in order, but of no profile more than it can spare beside `given`."""
        number = Counter(one.key for one in given if one.spare is not None)
        kept = []
        for one in there:
            number[one.key] += one.spare is not None
            if one.spare is None or number[one.key] <= self.spares[one.key]:
                kept.append(one)
        return kept

    def enough(
        self, request: Request, space: Space, given: Sequence[Candidate] = ()
    ) -> list[Candidate] | None:
        """Return as few as possible of those on a node that make room for a shard there.

        Args:
            request: what needs the room.
            space: the node.
            given: those that go already.

        Returns:
            None where all of them are not enough; empty where the others are.
        """
        there = [one for one in self.on.get(space.node.id, ()) if one not in given]
        space = space.without(*(one.replica for one in given)) if given else space
        try_ = _Try(request, space)
        in_order = self.within_spares(there, given)
        if not try_(in_order):
            return None
        found = _fewest(in_order, try_)
        if len(found) > try_.fewest(in_order):
            large = _fewest(sorted(in_order, key=try_.largest_first), try_)
            found = min(found, sorted(large, key=order), key=cost)
        return found


@dataclass(frozen=True, slots=True)
class _Try:
    """Asks whether there is room once some have gone."""

    request: Request
    space: Space
    lacks: Amounts = field(init=False)
    has: dict[str, Amounts] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lacks", lack(self.request, self.space))
        object.__setattr__(self, "has", dict(held(self.space)))

    def __call__(self, gone: Sequence[Candidate]) -> bool:
        return fits(self.request, self.space.without(*(one.replica for one in gone)))

    def fewest(self, there: Sequence[Candidate]) -> int:
        """Return how many have to go at least."""
        least = least_cost(self.lacks, there, self.has)
        return least[-1] if least is not None else 0

    def largest_first(self, one: Candidate) -> tuple[bool, int, float, str]:
        """Order those that are alike in what they are missed by what they leave."""
        has = self.has.get(one.replica, NOTHING)
        share = sum(part / need for part, need in zip(has, self.lacks, strict=True) if need)
        return (one.missed, one.group.profile.priority, -share, one.replica)


def _fewest(in_order: Sequence[Candidate], enough: _Try) -> list[Candidate]:
    """Return the first that are enough, without those that are not needed beside later ones."""
    size = bisect_left(range(len(in_order)), 1, key=lambda number: enough(in_order[:number]))
    taken = list(in_order[:size])
    for one in reversed(taken[:-1]) if size > enough.fewest(in_order) else ():
        less = [other for other in taken if other is not one]
        if enough(less):
            taken = less
    return taken


_Entry = tuple[Cost, str, int, "list[Candidate] | None", int]
"""Cost, node, serial number, who goes, and how often some were counted when that was found. Where
who goes is None the cost is a lower bound."""


class Costs:
    """What a place for one more shard costs on each node.

    Invariant: the last entry of a node is its cost or less, so that a cost that comes first is the
    least of all. What is booked on a node only makes it dearer; who goes is told by `look_again`.
    """

    def __init__(self, request: Request, giving: Giving, future: Room) -> None:
        self.request = request
        self._giving = giving
        self._future = future
        self._numbers = count()
        self._last: dict[str, int] = {}
        self._heap: list[_Entry] = []
        nodes = future.spaces if request.profile.nodes > 1 else giving.on
        for node in nodes:
            self.look_again(node)

    def look_again(self, node: str) -> None:
        """Forget what is known of a node: something was booked there, or somebody goes."""
        self._last.pop(node, None)
        space, there = self._future.spaces[node], self._giving.on.get(node, ())
        lacks = lack(self.request, space)
        if self.request.profile.nodes > 1 and lacks == NOTHING and fits(self.request, space):
            self._push(cost(()), node, [])
        elif there and (least := least_cost(lacks, there, held(space))) is not None:
            self._push(least, node, None)

    def in_order(self, but: Container[str]) -> Generator[tuple[Cost, str, list[Candidate]]]:
        """Yield every node on which a place can be cleared, the cheapest first; then by id.

        Close it before anything is booked.

        Args:
            but: nodes that are left out.
        """
        aside: list[_Entry] = []
        try:
            while self._heap:
                entry = heapq.heappop(self._heap)
                least, node, number, gone, spent = entry
                if self._last.get(node) != number:
                    continue
                if node in but:
                    aside.append(entry)
                elif gone is None or spent != self._giving.spent:
                    self._find_out(node)
                else:
                    aside.append(entry)
                    yield least, node, gone
        finally:
            for entry in aside:
                heapq.heappush(self._heap, entry)

    def _find_out(self, node: str) -> None:
        gone = self._giving.enough(self.request, self._future.spaces[node])
        if gone is None:
            del self._last[node]  # less and less can go there
        else:
            self._push(cost(gone), node, gone)

    def _push(self, least: Cost, node: str, gone: list[Candidate] | None) -> None:
        number = self._last[node] = next(self._numbers)
        heapq.heappush(self._heap, (least, node, number, gone, self._giving.spent))
