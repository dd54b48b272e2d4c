"""One order and how far it is. No I/O: the clock's value and the waits come as arguments."""

from dataclasses import dataclass, field

from llmgw.base.backoff import Backoff
from llmgw.base.errors import LlmgwError
from llmgw.model.node import FAILED, INSTALLING
from llmgw.model.settings import EngineBuild, EngineOrder

_RETRY = Backoff(first=60.0, most=1800.0)


@dataclass(slots=True)
class Tried:
    """A build that did not come to run here. `next_try`: monotonic seconds; None: never again."""

    words: str
    failures: int
    next_try: float | None


@dataclass(slots=True)
class Wanted:
    """An order, what is being done for it, and which of its builds did not come to run here."""

    order: EngineOrder
    state: str = INSTALLING
    words: str = "waits for its turn"
    bringing: EngineBuild | None = None
    failures: int = 0
    next_try: float = 0.0
    """Monotonic seconds: nothing can be brought before, whatever the build."""
    tried: dict[str, Tried] = field(default_factory=dict)
    """By the place of the build."""

    def passed_over(self, place: str, now: float) -> str | None:
        """Return why a build is not to be tried at that time; None when it is."""
        tried = self.tried.get(place)
        if tried is None or (tried.next_try is not None and tried.next_try <= now):
            return None
        return tried.words

    def did_not_run(self, place: str, words: str, *, for_ever: bool, now: float, at: float) -> None:
        """Pass a build over from now on: for ever, or longer after each time.

        Args:
            place: of the build.
            words: why it does not run here.
            for_ever: the processor can't run it.
            now: monotonic seconds.
            at: how much of the wait is waited, 0-1: it spreads retries.
        """
        failures = self.tried[place].failures if place in self.tried else 0
        again = None if for_ever else now + _RETRY.limit(failures) * at
        self.tried[place] = Tried(words=words, failures=failures + 1, next_try=again)

    def could_not_be_brought(self, error: LlmgwError, *, now: float, at: float) -> float:
        """Wait with all of it, longer after each time; return the seconds.

        Args:
            error: why; another build would have met it too.
            now: monotonic seconds.
            at: how much of the wait is waited, 0-1: it spreads retries.
        """
        wait = _RETRY.limit(self.failures) * at
        self.failures += 1
        self.next_try = now + wait
        hint = "" if error.hint is None else f": {error.hint}"
        self.note(FAILED, f"not installed: {error.message}{hint}")
        return wait

    def note(self, state: str, words: str) -> bool:
        """Take what is to be said of it; return whether that is something else than before."""
        changed = (self.state, self.words) != (state, words)
        self.state, self.words = state, words
        return changed
