"""Nodes in order for one kind of request, kept between the placements of one plan.

A pass that places a thousand replicas must not look at a thousand nodes each time. What filters and
scores say of a node changes only when something is booked on it, so each ranking rates every node
once and then only those that were booked on since. Why a node is turned away costs more to say than
that it is: words are made when somebody asks for them.
"""

import heapq
from collections.abc import Container, Mapping
from typing import Protocol

from llmgw.plan.placement.room import Room, Space
from llmgw.plan.records import Verdict


class Rates(Protocol):
    """Says what nodes are worth."""

    def worth(self, space: Space) -> int | None:
        """Return what a node is worth; None: it is turned away."""
        ...

    def refusal(self, space: Space) -> Verdict:
        """Return why a node is turned away."""
        ...


class Ranking:
    """All nodes of a room by what they are worth; of equals the first by id comes first."""

    def __init__(self, room: Room, rates: Rates) -> None:
        self._room = room
        self._rates = rates
        worth = rates.worth
        self._worth = {name: worth(space) for name, space in room.spaces.items()}
        self._refusals: dict[str, Verdict] = {}
        self._heap = [(-worth, n) for n, worth in self._worth.items() if worth is not None]
        heapq.heapify(self._heap)
        self._seen = len(room.booked)

    def best(self, but: Container[str] = ()) -> tuple[int, str] | None:
        """Return the best node and what it is worth, leaving out those in `but`."""
        self._refresh()
        aside: list[tuple[int, str]] = []
        found: tuple[int, str] | None = None
        while self._heap and found is None:
            worth, name = self._heap[0]
            if self._worth[name] != -worth:
                heapq.heappop(self._heap)
            elif name in but:
                aside.append(heapq.heappop(self._heap))
            else:
                found = (-worth, name)
        for entry in aside:
            heapq.heappush(self._heap, entry)
        return found

    def worths(self) -> Mapping[str, int | None]:
        """Return what each node is worth; None: it is turned away."""
        self._refresh()
        return self._worth

    def rated(self) -> Mapping[str, int | Verdict]:
        """Return what each node is worth, or why it is turned away."""
        return {
            name: self._refusal(name) if worth is None else worth
            for name, worth in self.worths().items()
        }

    def _refusal(self, name: str) -> Verdict:
        found = self._refusals.get(name)
        if found is None:
            found = self._refusals[name] = self._rates.refusal(self._room.spaces[name])
        return found

    def _refresh(self) -> None:
        booked = self._room.booked
        for name in dict.fromkeys(booked[self._seen :]):
            self._refusals.pop(name, None)
            worth = self._rates.worth(self._room.spaces[name])
            if worth != self._worth[name]:
                self._worth[name] = worth
                if worth is not None:
                    heapq.heappush(self._heap, (-worth, name))
        self._seen = len(booked)
