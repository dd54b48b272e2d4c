"""Deadlines of many connections, looked at together: setting one costs a number, not a timer."""

from collections.abc import Callable
from typing import Final, Protocol

from llmgw.gateway.proxy import faults

NEVER: Final = float("inf")
PERIOD: Final = 0.25
"""Seconds between two looks; a deadline is kept to within this."""


class Expiring(Protocol):
    """Something with a deadline."""

    deadline: float

    def expire(self) -> None:
        """Act on a deadline that has passed; sets a new one or `NEVER`."""
        ...

    def break_off(self) -> None:
        """End: it could not act."""
        ...


class Deadlines:
    """All that has a deadline in one worker."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._all: dict[Expiring, None] = {}

    def after(self, seconds: float) -> float:
        """Return the deadline that is so far away."""
        return self.now() + seconds

    def add(self, one: Expiring) -> None:
        """Look after it from now on."""
        self._all[one] = None

    def discard(self, one: Expiring) -> None:
        """Look after it no longer."""
        self._all.pop(one, None)

    def look(self) -> None:
        """Let everything act whose deadline has passed."""
        now = self.now()
        for one in [one for one in self._all if one.deadline <= now]:
            try:
                one.expire()
            except Exception as error:  # noqa: BLE001 (the others have deadlines too)
                faults.note(error, "act on a deadline")
                one.break_off()
