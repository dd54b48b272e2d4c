"""Nodes in order for one kind of request, kept between the placements of one plan.

A pass that places a thousand replicas must not look at a thousand nodes each time. What filters and
scores say of a node changes only when something is booked on it, so each ranking rates every node
once and then only those that were booked on since.
"""

import heapq
from collections.abc import Callable, Container, Mapping

from llmgw.plan.placement.room import Room, Space
from llmgw.plan.records import Verdict

Rate = Callable[[Space], int | Verdict]
"""What a node is worth, or why it is turned away."""


class Ranking:
    """All nodes of a room by what they are worth; of equals the first by id comes first."""

    def __init__(self, room: Room, rate: Rate) -> None:
        self._room = room
        self._rate = rate
        self._rated: dict[str, int | Verdict] = {
            name: rate(space) for name, space in room.spaces.items()
        }
        self._heap = [(-worth, n) for n, worth in self._rated.items() if isinstance(worth, int)]
        heapq.heapify(self._heap)
        self._seen = len(room.booked)

    def best(self, but: Container[str] = ()) -> tuple[int, str] | None:
        """Return the best node and what it is worth, leaving out those in `but`."""
        self._refresh()
        aside: list[tuple[int, str]] = []
        found: tuple[int, str] | None = None
        while self._heap and found is None:
            worth, name = self._heap[0]
            if self._rated[name] != -worth:
                heapq.heappop(self._heap)
            elif name in but:
                aside.append(heapq.heappop(self._heap))
            else:
                found = (-worth, name)
        for entry in aside:
            heapq.heappush(self._heap, entry)
        return found

    def rated(self) -> Mapping[str, int | Verdict]:
        """Return what each node is worth, or why it is turned away."""
        self._refresh()
        return self._rated

    def _refresh(self) -> None:
        booked = self._room.booked
        for name in dict.fromkeys(booked[self._seen :]):
            rated = self._rate(self._room.spaces[name])
            if rated != self._rated[name]:
                self._rated[name] = rated
                if isinstance(rated, int):
                    heapq.heappush(self._heap, (-rated, name))
        self._seen = len(booked)
