"""Tells the change when a node has been silent for too long.

The verdict itself is a function of age and is right at any moment; this pass marks the change in
the feed. It sleeps until the first node can change its verdict: with every node beating it wakes
about once in three intervals, however many nodes there are.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

from llmgw.control.fleet import Fleet
from llmgw.control.liveness import MISSED
from llmgw.control.settings import LiveSettings
from llmgw.model.node import Node

SLACK = 0.05
"""Seconds beyond the moment itself: a wake-up a hair too early would be followed by another."""


class Liveness:
    """The pass `liveness`.

    Args:
        keep: stores when a node that fell silent was last heard.
    """

    def __init__(
        self, fleet: Fleet, settings: LiveSettings, keep: Callable[[Node], Awaitable[None]]
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._keep = keep

    def period(self) -> float:
        """Return the seconds until the first verdict can change: a new node's or a known one's."""
        soonest = MISSED * self._settings.current.settings.link.heartbeat_interval
        left = self._fleet.next_change()
        return (soonest if left is None else min(left, soonest)) + SLACK

    async def run(self) -> str:
        """Mark what changed and return how many nodes are in which state."""
        changed = self._fleet.age()
        for node in changed:
            await self._keep(node)
        count = Counter(node.liveness or "awaited" for node in self._fleet.nodes())
        words = ", ".join(f"{count[state]} {state}" for state in sorted(count)) or "no nodes"
        if not changed:
            return words
        names = ", ".join(f"{node.id} is {node.liveness or 'awaited'}" for node in changed)
        return f"{words}; {names}"
