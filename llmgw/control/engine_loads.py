"""What engines say that they have to do, as gateways are told it."""

from collections.abc import Iterable

from llmgw.model.gateway import EngineLoad, EngineLoads
from llmgw.plan.records import Load

MOST = 4096
"""Engines that one message tells of; of more, the others are told the next time."""
SCRAPES = 3
"""What is older than so many looks of an agent says nothing."""
LEAST_LOOK = 5.0
"""Seconds between two looks of an agent at its engines, at least."""
_SAME = 0.5
"""Seconds within which two ages mean one look."""


def stale_after(heartbeat_interval: float) -> float:
    """Return the age in seconds from which on a figure says nothing."""
    return SCRAPES * max(LEAST_LOOK, heartbeat_interval)


class Telling:
    """What one gateway was told of engines' loads on its stream."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def news(self, loads: Iterable[Load], now: float, limit: float) -> EngineLoads | None:
        """Return what is new since the last call, bounded; None when nothing is.

        Args:
            loads: of every replica.
            now: wall-clock seconds.
            limit: the age from which on a figure says nothing.
        """
        told = self._told
        news: list[EngineLoad] = []
        known: dict[str, float] = {}
        for load in loads:
            said = None if load.age is None else now - load.age
            before = told.get(load.replica)
            if before is not None:
                known[load.replica] = before
            if said is None or load.age is None or load.age >= limit or len(news) >= MOST:
                continue
            if load.running is None and load.waiting is None and load.cache_used is None:
                continue
            if before is None or said - before > _SAME:
                known[load.replica] = said
                news.append(_figures(load, load.age))
        self._told = known
        return EngineLoads(stale_after=limit, loads=tuple(news)) if news else None


def _figures(load: Load, age: float) -> EngineLoad:
    return EngineLoad(
        replica=load.replica,
        running=load.running,
        waiting=load.waiting,
        cache_used=load.cache_used,
        age=max(0.0, age),
    )
