"""Readings that are kept for each card apart: one whose section is cut does not cost the others."""

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from llmgw.base.clock import Clock
from llmgw_agent.parse.plausible import MOST_CARDS
from llmgw_agent.probe.kept import Kept

T = TypeVar("T")


class PerCard(Generic[T]):
    """The last reading of each card, by UUID, of as many cards as a machine can have."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, Kept[T]] = {}

    def put(self, readings: Mapping[str, T]) -> None:
        """Keep readings that were just made."""
        for uuid, reading in readings.items():
            kept = self._kept.pop(uuid) if uuid in self._kept else Kept[T](self._clock)
            kept.put(reading)
            self._kept[uuid] = kept
        for oldest in tuple(self._kept)[:-MOST_CARDS]:
            del self._kept[oldest]

    def hold(self, uuids: Collection[str]) -> None:
        """Forget the cards that are not among these: they are not there any more."""
        for gone in self._kept.keys() - set(uuids):
            del self._kept[gone]

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
