"""The last readings of one thing, in a few hundred bytes."""

from array import array
from collections.abc import Sequence

GAP = float("nan")


class Ring:
    """A ring of readings; appending costs the same however long it runs."""

    __slots__ = ("_at", "_values")

    def __init__(self, length: int = 120) -> None:
        self._values = array("f", [GAP]) * length
        self._at = 0

    def add(self, value: float | None) -> None:
        """Add a reading; None is a gap."""
        self._values[self._at] = GAP if value is None else value
        self._at = (self._at + 1) % len(self._values)

    def values(self) -> Sequence[float]:
        """Return all readings, oldest first; NaN where there was none."""
        return self._values[self._at :] + self._values[: self._at]
