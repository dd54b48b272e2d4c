"""Which engine a request is sent to next, and what is answered when there is none."""

from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.held import RETRY_AFTER
from llmgw.gateway.proxy.means import Means, Task
from llmgw.gateway.refusals import Refusal, quoted
from llmgw.gateway.route.choice import least_loaded, open_endpoints, soonest

MOST = 3
"""Engines that one request is sent to at most: one that kills engines may not kill them all."""


class Tries:
    """The engines that one request was sent to."""

    __slots__ = ("_means", "_task", "_tried")

    def __init__(self, means: Means, task: Task) -> None:
        self._means = means
        self._task = task
        self._tried: list[Engine] = []

    @property
    def again(self) -> bool:
        """Say whether the request was sent to several."""
        return len(self._tried) > 1

    def open_now(self) -> list[Engine]:
        """Return the engines that it can still be sent to."""
        if len(self._tried) >= MOST:
            return []
        now = self._means.deadlines.now()
        return open_endpoints(self._task.way.engines, self._tried, now)

    def choose(self) -> Engine | None:
        """Choose the engine that it is sent to next; None when there is none."""
        engine = least_loaded(self.open_now(), Engine.load, self._means.below)
        if engine is not None:
            self._tried.append(engine)
        return engine

    def nobody(self) -> Refusal:
        """Return why there is none."""
        way = self._task.way
        model = quoted(way.model)
        if not way.engines:
            words = way.reason or "no replica is ready"
            if way.holds:
                words = f"{words}; {self._task.config.held_most} requests wait for it already"
            return Refusal("no_replica", f"model {model}: {words}", "model", RETRY_AFTER)
        seen = self._tried[-1] if self._tried else way.engines[0]
        words = f"model {model}: no replica could be reached: {seen.health.words}"
        wait = soonest(way.engines, self._means.deadlines.now())
        return Refusal("engine_unreachable", words, "model", round(wait + 0.5))
