"""Replies that pass piece by piece, looked at together: a piece itself costs no account, no clock.

One look comes each `deadlines.PERIOD`, before what passed is told to the parent and before
deadlines are acted on.
"""

from typing import Protocol


class Passing(Protocol):
    """A reply of which pieces pass."""

    def look(self, now: float) -> None:
        """Charge what passed since the last look, and set the deadline for more of it."""
        ...

    def fault(self, error: Exception) -> None:
        """End after a fault of our own."""
        ...


class Streams:
    """All of them in one worker."""

    def __init__(self) -> None:
        self._all: dict[Passing, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def add(self, one: Passing) -> None:
        """Look at it from now on."""
        self._all[one] = None

    def discard(self, one: Passing) -> None:
        """Look at it no longer; one that is not there is no error."""
        self._all.pop(one, None)

    def look(self, now: float) -> None:
        """Look at each; `now` in monotonic seconds."""
        for one in tuple(self._all):
            try:
                one.look(now)
            except Exception as error:  # noqa: BLE001 (the others are charged too)
                one.fault(error)
