"""Whether what happens reaches the store: what can't be written now, since when and why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.units import show_seconds
from llmgw.model.events import INFO, PROBLEM

EVENTS = "events"
HARDWARE = "hardware changes"
NODES = "nodes"
USAGE = "usage"

FORGOTTEN = 60.0
"""Seconds after which a failure counts no more that was not followed by another: what fails is
tried again within seconds, or whoever wanted it is gone."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Kinds of records that can't be written for one reason. `since`: monotonic seconds."""

    kinds: tuple[str, ...]
    since: float
    words: str


@dataclass(slots=True)
class _Failure:
    """Monotonic seconds."""

    since: float
    last: float
    words: str


class Writing:
    """What of the records that are written without anybody waiting for it fails, by kind.

    Whoever waits is told by an error of his own. That nothing is written any more is told once,
    and once that all is.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tell: Callable[[str, str], None] = _nobody
        self._kinds: dict[str, _Failure | None] = {}
        self._began: float | None = None

    def on_change(self, tell: Callable[[str, str], None]) -> None:
        """Have a severity and words told when writing begins to fail, and when it is over."""
        self._tell = tell

    def failed(self, kind: str, error: LlmgwError) -> None:
        """Note that records of a kind could not be written."""
        now = self._clock.monotonic()
        words = f"{error.message}; {error.hint}" if error.hint else error.message
        known = self._current(kind)
        self._kinds[kind] = _Failure(known.since if known else now, now, words)
        if self._began is None:
            self._began = now
            self._tell(PROBLEM, f"{kind} can't be written into the store: {words}")

    def done(self, kind: str) -> None:
        """Note that records of a kind were written."""
        self._kinds[kind] = None
        if self._began is not None and not any(map(self._current, self._kinds)):
            lasted = show_seconds(self._clock.monotonic() - self._began)
            self._began = None
            self._tell(INFO, f"the store is written again, after {lasted}")

    def failing(self) -> Mapping[str, bool]:
        """Return by kind whether its records can't be written; of those that were tried."""
        return {kind: self._current(kind) is not None for kind in self._kinds}

    def unwritten(self) -> tuple[Unwritten, ...]:
        """Return what can't be written, each reason once."""
        found: dict[str, dict[str, float]] = {}
        for kind in sorted(self._kinds):
            if (failure := self._current(kind)) is not None:
                found.setdefault(failure.words, {})[kind] = failure.since
        return tuple(
            Unwritten(tuple(kinds), min(kinds.values()), words) for words, kinds in found.items()
        )

    def _current(self, kind: str) -> _Failure | None:
        failure = self._kinds.get(kind)
        if failure is None or self._clock.monotonic() - failure.last > FORGOTTEN:
            return None
        return failure


def _nobody(severity: str, words: str) -> None:
    """Tell nobody."""
