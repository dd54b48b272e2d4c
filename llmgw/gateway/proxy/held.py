"""Requests that wait for a model which the first of them starts (REC-6)."""

from collections.abc import Callable
from typing import Protocol

from llmgw.gateway.proxy.endpoints import Way
from llmgw.gateway.refusals import Refusal, quoted

RETRY_AFTER = 5
"""Seconds after which a client may ask again for a model that could not be had."""


class Waits(Protocol):
    """A request that can be held."""

    def go_on(self, way: Way) -> None:
        """Go to an engine: there is one now."""
        ...

    def give_up(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        ...


class Held:
    """One worker's held requests, by model, in the order in which they came.

    Bounded: so many of each model; the next one is refused.

    Args:
        changed: called when it is news how many are held.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._waiting: dict[str, dict[Waits, None]] = {}
        self._changed = changed

    def counts(self) -> dict[str, int]:
        """Return how many wait for each model."""
        return {model: len(waiting) for model, waiting in self._waiting.items()}

    def hold(self, request: Waits, model: str, most: int) -> bool:
        """Let a request wait; return False when so many wait already."""
        waiting = self._waiting.setdefault(model, {})
        if len(waiting) >= most:
            self._tidy(model)
            return False
        waiting[request] = None
        self._changed()
        return True

    def leave(self, request: Waits, model: str) -> None:
        """Forget a request that waits no longer."""
        if request in self._waiting.get(model, ()):
            del self._waiting[model][request]
            self._tidy(model)
            self._changed()

    def look(self, ways: dict[str, Way], *, stopped: bool) -> None:
        """Answer those that need not wait any more, by the table as it is now."""
        for model in list(self._waiting):
            way = ways.get(model)
            if way is not None and way.engines:
                for request in self._take(model):
                    request.go_on(way)
            elif stopped:
                self._refuse(model, Refusal("system_stopped", "an operator has stopped serving"))
            elif way is None or not way.holds:
                self._refuse(model, _nobody(model, way))

    def _refuse(self, model: str, refusal: Refusal) -> None:
        for request in self._take(model):
            request.give_up(refusal)

    def _take(self, model: str) -> list[Waits]:
        waiting = list(self._waiting.pop(model, ()))
        self._changed()
        return waiting

    def _tidy(self, model: str) -> None:
        if not self._waiting.get(model):
            self._waiting.pop(model, None)


def _nobody(model: str, way: Way | None) -> Refusal:
    words = (way.reason if way is not None else None) or "it left the catalog"
    return Refusal("no_replica", f"model {quoted(model)}: {words}", "model", RETRY_AFTER)
