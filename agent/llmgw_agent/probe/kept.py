"""A probe's last reading, and how long it counts."""

from typing import Generic, TypeVar

from llmgw.base.clock import Clock

T = TypeVar("T")

OLDEST = 60.0
"""Seconds after which a reading is left out rather than repeated."""


class Kept(Generic[T]):
    """The last reading of something that is measured again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._value: T | None = None
        self._at: float | None = None

    def put(self, value: T) -> None:
        """Keep a reading that was just made."""
        self._value, self._at = value, self._clock.monotonic()

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading; None when there was none."""
        return None if self._at is None else self._clock.monotonic() - self._at

    @property
    def fresh(self) -> T | None:
        """Return the last reading; None when there is none or it is older than a minute."""
        age = self.age
        return self._value if age is not None and age <= OLDEST else None

    @property
    def last(self) -> T | None:
        """Return the last reading, however old."""
        return self._value
