"""Readings that are kept for each card apart: one whose section is cut does not cost the others."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from llmgw.base.clock import Clock
from llmgw_agent.probe.kept import Kept

T = TypeVar("T")


class PerCard(Generic[T]):
    """The last reading of each card, by UUID."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, Kept[T]] = {}

    def put(self, readings: Mapping[str, T]) -> None:
        """Keep readings that were just made."""
        for uuid, reading in readings.items():
            self._kept.setdefault(uuid, Kept(self._clock)).put(reading)

    @property
    def age(self) -> float | None:
        """Return the seconds since the newest reading; None when there was none."""
        ages = (kept.age for kept in self._kept.values())
        return min((age for age in ages if age is not None), default=None)

    def age_of(self, uuid: str) -> float | None:
        """Return the seconds since a card's last reading."""
        return self._kept[uuid].age if uuid in self._kept else None

    @property
    def fresh(self) -> dict[str, T]:
        """Return the readings that are not older than a minute."""
        found = ((uuid, kept.fresh) for uuid, kept in self._kept.items())
        return {uuid: reading for uuid, reading in found if reading is not None}

    @property
    def last(self) -> dict[str, T]:
        """Return the last reading of each card that was ever seen, however old."""
        found = ((uuid, kept.last) for uuid, kept in self._kept.items())
        return {uuid: reading for uuid, reading in found if reading is not None}
