"""Tells the change when a node has been silent for too long.

The verdict itself is a function of age and is right at any moment; this pass marks the change in
the feed. It sleeps until the first node can change its verdict: with every node beating it wakes
about once in three intervals, however many nodes there are.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from llmgw.base.clock import Clock
from llmgw.control.fleet import Fleet
from llmgw.control.liveness import MISSED
from llmgw.control.losses import KEPT_EVERY
from llmgw.control.settings import LiveSettings
from llmgw.model.node import READY, Node

KEPT_AT_ONCE = 64
"""Nodes that one pass tells the store of because they are still there."""

SLACK = 0.05
"""Seconds beyond the moment itself: a wake-up a hair too early would be followed by another."""


class Liveness:
    """The pass `liveness`.

    Args:
        keep: stores when a node was last heard.
    """

    def __init__(
        self,
        fleet: Fleet,
        settings: LiveSettings,
        keep: Callable[[Node], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._keep = keep
        self._clock = clock
        self._kept: dict[str, float] = {}

    def period(self) -> float:
        """Return the seconds until the first verdict can change: a new node's or a known one's."""
        soonest = MISSED * self._settings.current.settings.link.heartbeat_interval
        left = self._fleet.next_change()
        return (soonest if left is None else min(left, soonest)) + SLACK

    async def run(self) -> str:
        """Mark what changed and return how many nodes are in which state."""
        changed = self._fleet.age()
        nodes = self._fleet.nodes()
        for node in (*changed, *self._still_there(nodes)):
            await self._keep(node)
        count = Counter(node.liveness or "awaited" for node in nodes)
        words = ", ".join(f"{count[state]} {state}" for state in sorted(count)) or "no nodes"
        if not changed:
            return words
        names = ", ".join(f"{node.id} is {node.liveness or 'awaited'}" for node in changed)
        return f"{words}; {names}"

    def _still_there(self, nodes: Sequence[Node]) -> list[Node]:
        """Return ready nodes of which the store was told long ago that they are.

        By that the next control plane tells those that were there when this one ended.
        """
        now = self._clock.monotonic()
        ready = [node for node in nodes if node.liveness == READY]
        known = {node.id: self._kept.get(node.id, now) for node in ready}
        due = [node for node in ready if now - known[node.id] >= KEPT_EVERY][:KEPT_AT_ONCE]
        self._kept = {**known, **{node.id: now for node in due}}
        return due
