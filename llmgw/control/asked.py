"""What is asked of each model: when last, and how many tokens a second it makes."""

from collections import deque

from llmgw.base.clock import Clock
from llmgw.model.gateway import ModelTraffic, TrafficReport
from llmgw.plan.records import Demand

OVER = 30.0
"""Seconds over which tokens are counted."""
MOST = 4096
"""Models that are followed; of more, nothing is known."""


class Asked:
    """Rates made of the totals that gateways' workers report.

    A worker's first report is where its counting begins here. Totals that fall belong to a worker
    that took another's place, and begin anew.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[tuple[str, int, str], tuple[str, int, int]] = {}
        """By gateway, worker and model: boot, requests, tokens."""
        self._busy: dict[str, float] = {}
        """When anything was asked of a model last; monotonic seconds."""
        self._made: dict[str, deque[tuple[float, int]]] = {}

    def models(self) -> frozenset[str]:
        """Return the models of which anything is known."""
        return frozenset(self._busy) | frozenset(self._made)

    def take(self, report: TrafficReport) -> None:
        """Apply what a worker counted."""
        for model in report.models:
            if model.model in self._made or len(self._made) < MOST:
                self._take(report, model)

    def demand(self, model: str, queued: int) -> Demand:
        """Return what is asked of a model, when so many requests wait for it at gateways."""
        now, busy = self._clock.monotonic(), self._busy.get(model)
        made = self._made.get(model)
        if made is not None:
            while made and now - made[0][0] > OVER:
                made.popleft()
        return Demand(
            model=model,
            queued=queued,
            tokens_per_second=None if made is None else sum(count for _, count in made) / OVER,
            idle_for=None if busy is None else now - busy,
        )

    def _take(self, report: TrafficReport, model: ModelTraffic) -> None:
        now = self._clock.monotonic()
        key = (report.gateway, report.worker, model.model)
        boot, requests, tokens = self._last.get(key, ("", 0, 0))
        answered = sum(reply.count for reply in model.replies) + model.client_aborts
        made = self._made.setdefault(model.model, deque())
        if boot == report.boot and tokens < model.completion_tokens:
            made.append((now, model.completion_tokens - tokens))
        if model.in_flight or (boot == report.boot and requests != answered):
            self._busy[model.model] = now
        self._last[key] = (report.boot, answered, model.completion_tokens)
