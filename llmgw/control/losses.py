"""Watches for nodes that are lost together, tells it once, and says it to whoever decides."""

from collections.abc import Callable, Mapping

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.nodes import SeenNode
from llmgw.model.events import INFO, PROBLEM
from llmgw.model.node import LOST, READY
from llmgw.model.settings import Settings
from llmgw.model.trouble import MASS_LOSS
from llmgw.plan.massloss import WITHIN, Silent, Together, described, follow
from llmgw.plan.records import MassLoss

KEPT_EVERY = 600.0
"""Seconds after which the store is told anew when a ready node was last heard."""


class Losses:
    """The mass loss that goes on, if one does.

    Args:
        nodes: the fleet's nodes.
        settings: those in force.
        settled: whether anything may be decided yet: until then nodes of the store are on the way.
    """

    def __init__(
        self,
        nodes: Mapping[str, SeenNode],
        clock: Clock,
        events: Events,
        *,
        settings: Callable[[], Settings],
        settled: Callable[[], bool],
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._events = events
        self._settings = settings
        self._settled = settled
        self._together: Together | None = None
        self.now: MassLoss | None = None
        """As of the last look."""

    def look(self) -> MassLoss | None:
        """Look at who is silent now; tell when a mass loss begins or ends."""
        settings, now = self._settings(), self._clock.monotonic()
        silent = self._silent(settings) if self._settled() else []
        counted = self._counted(settings)
        before = self.now
        self._together = follow(
            self._together,
            silent,
            counted - len(silent),
            within=max(WITHIN, 2 * settings.link.heartbeat_interval),
            now=now,
            settling=settings.reconcile.settling,
        )
        together = self._together
        self.now = described(together, silent, counted) if together is not None else None
        self._tell(before, self.now)
        return self.now

    def concerns(self, node: str) -> bool:
        """Say whether a node is one of those that were lost together."""
        return self.now is not None and node in self.now.nodes

    def _tell(self, before: MassLoss | None, after: MassLoss | None) -> None:
        if before is None and after is not None:
            words = f"{after.words}; nothing is placed anew for them"
            self._events.add("fleet", MASS_LOSS, words, severity=PROBLEM)
        elif before is not None and after is None:
            self._events.add("fleet", MASS_LOSS, "the mass loss is over", severity=INFO)

    def _silent(self, settings: Settings) -> list[Silent]:
        ended = self._last_of_the_store()
        found = []
        for seen in self._nodes.values():
            if self._counts(seen, settings, ended) and self._verdict(seen, settings) != READY:
                heard = seen.heard is not None
                since = seen.awaited if seen.heard is None else seen.heard
                lost = self._verdict(seen, settings) == LOST or not heard
                found.append(Silent(node=seen.id, since=since, lost=lost, heard=heard))
        return found

    def _counted(self, settings: Settings) -> int:
        ended = self._last_of_the_store()
        return sum(self._counts(seen, settings, ended) for seen in self._nodes.values())

    def _counts(self, seen: SeenNode, settings: Settings, ended: float) -> bool:
        """Say whether a node counts: it was not away before, and nobody said that it is gone."""
        heard = seen.last_heard()
        if heard is None or self._verdict(seen, settings) == READY:
            return True
        if heard < settings.reconcile.losses_accepted_before:
            return False
        return seen.heard is not None or heard >= ended - 2 * KEPT_EVERY

    def _verdict(self, seen: SeenNode, settings: Settings) -> str | None:
        return seen.liveness(self._clock.monotonic(), settings.link.lost_after)

    def _last_of_the_store(self) -> float:
        """Return when the last control plane heard any node for the last time, as stored.

        What it had not heard for long by then was not lost with the others.
        """
        stored = (seen.stored.last_seen for seen in self._nodes.values() if seen.stored is not None)
        return max(stored, default=0.0)
