"""One node as a scrape shows it: what of it still counts, with labels made once.

A plain slots class: one is made for each node and scrape, and every family of nodes reads it.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from llmgw.control.current import OLD_SECONDS, current
from llmgw.control.metrics.text import shown
from llmgw.model.device import MIG, Device, DeviceHealth, DeviceSample
from llmgw.model.fabric import Port
from llmgw.model.node import READY, Heartbeat, ProbeState, Sample
from llmgw.plan.records import NodeRoom

DEVICE = ("node", "gpu", "uuid")

FIRST_INSTANCE = 1000
A_CARD = 100
"""A MIG instance has the number 1000 + 100 * card + instance."""

T = TypeVar("T")


class OneNode:
    """A node, its last heartbeat if that is not old, and its devices with their labels.

    Attributes:
        id: the node's name.
        text: the node's name as a label.
        beat: what was read within the last minute of the last heartbeat; None when that is older.
        age: seconds since the last heartbeat.
        there: something was heard of it within the last minute: what it has can be told.
        devices: what it has that engines can be given, by labels; none of a node that is gone.
        cut: the cards that are cut into instances, by UUID.
        readings, health: what is not old, by the labels of a device or, for figures that MIG
            instances share, of their card.
        ports, probes: those of the last heartbeat, by their labels.
        flaps: how often the link of each port went down.
    """

    __slots__ = ("age", "beat", "cut", "devices", "flaps", "health", "id", "models_of", "now",
                 "ports", "probes", "reading_records", "reading_texts", "readings", "room", "text",
                 "there")  # fmt: skip

    def __init__(
        self,
        room: NodeRoom,
        sample: Sample | None,
        now: float,
        models_of: Mapping[str, str],
        flaps: Mapping[str, int] | None = None,
    ) -> None:
        self.room = room
        self.id = room.node.id
        self.now = now
        self.models_of = models_of
        self.flaps = flaps or {}
        self.text = f'node="{shown(self.id)}"'
        self.age = 0.0 if sample is None else max(0.0, now - sample.at)
        self.beat = None if sample is None else current(sample.heartbeat, self.age)
        self.there = self.beat is not None or room.node.liveness == READY
        known = room.node.inventory.devices or ()
        self.cut = frozenset(one.card_uuid for one in known if one.card_uuid is not None)
        self.devices: list[tuple[str, Device]] = []
        self.readings: list[tuple[str, DeviceSample]] = []
        self.reading_texts: list[str] = []
        self.reading_records: list[DeviceSample] = []
        self.health: list[tuple[str, DeviceHealth]] = []
        self.ports: list[tuple[str, Port]] = []
        self.probes: list[tuple[str, ProbeState]] = []
        if not self.there:
            return
        numbers = _numbers(known)
        self.devices = first_of((self._named(one.uuid, numbers), one) for one in known)
        if self.beat is not None:
            self._take_readings(self.beat, numbers)
            self._take_others(self.beat)

    def _take_readings(self, beat: Heartbeat, numbers: Mapping[str, str]) -> None:
        newest = OLD_SECONDS - self.age
        self.readings = first_of(
            (self._named(one.uuid, numbers), one)
            for one in beat.devices or ()
            if (one.age or 0.0) <= newest
        )
        # Twenty families read these one after the other: they go through them without a loop.
        self.reading_texts = [text for text, _ in self.readings]
        self.reading_records = [one for _, one in self.readings]
        self.health = first_of(
            (self._named(one.uuid, numbers), one)
            for one in beat.health or ()
            if (one.age or 0.0) <= newest
        )

    def _take_others(self, beat: Heartbeat) -> None:
        self.ports = first_of(
            (f'{self.text},adapter="{shown(one.adapter)}",port="{one.number}"', one)
            for one in beat.ports or ()
        )
        self.probes = first_of(
            (f'{self.text},probe="{shown(one.name)}"', one) for one in beat.probes or ()
        )

    def _named(self, uuid: str, numbers: Mapping[str, str]) -> str:
        return f'{self.text},gpu="{numbers.get(uuid, "")}",uuid="{shown(uuid)}"'


def first_of(found: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    """Return what was found under each name, the first of each: a scrape may not say one twice."""
    told = list(found)
    kept = dict(reversed(told))
    return told if len(kept) == len(told) else [(name, kept[name]) for name in dict(told)]


def _numbers(known: Iterable[Device]) -> dict[str, str]:
    """Return each device's number, and that of the cards whose instances are known."""
    found: dict[str, str] = {}
    for one in known:
        if one.number is None:
            continue
        found[one.uuid] = str(one.number)
        if one.kind == MIG and one.card_uuid is not None and one.number >= FIRST_INSTANCE:
            found.setdefault(one.card_uuid, str((one.number - FIRST_INSTANCE) // A_CARD))
    return found
