"""The last hour of the main series of every node, in memory, bounded, gone with the process.

Nothing here is on a heartbeat's way: the pass `history` takes what the fleet knows at each step.
A step at which nothing was measured is a gap, never a zero, and so is all the time before this
control plane began to lead (TEL-13).
"""

import sys
from collections.abc import Collection
from dataclasses import dataclass, field

from llmgw.control import ring
from llmgw.control.current import current
from llmgw.model.device import DeviceSample
from llmgw.model.history import (
    DEVICE_MEASURES,
    HOUR,
    NODE_MEASURES,
    OLD_SECONDS,
    Measure,
    Series,
    Values,
    device_values,
    node_values,
)
from llmgw.model.node import Sample
from llmgw.model.work import WorkSource, work

STEP = 10.0
"""Seconds between two readings: 360 an hour, three to a column of a chart of 60 cells."""
LENGTH = int(HOUR * 60 / STEP)
MOST_DEVICES = 128
"""Of one node; of more, the ones that were longest without a reading are let go."""

Rings = tuple[bytearray, ...]


@dataclass(slots=True)
class _Device:
    """The rings of one device. Ticks: when anything of it was last measured."""

    rings: Rings
    last: int
    work: dict[WorkSource, int] = field(default_factory=dict)
    """When its work was last made of that."""


@dataclass(slots=True)
class _Node:
    """The rings of one node, all written up to `tick`."""

    rings: Rings
    tick: int
    devices: dict[str, _Device] = field(default_factory=dict)


class History:
    """One ring a series. A tick is a step of monotonic time, counted from anywhere.

    Invariant: a node has a ring for each of `NODE_MEASURES` and, for at most `MOST_DEVICES` devices
    that were measured within the last hour, one for each of `DEVICE_MEASURES`.
    """

    def __init__(self, length: int = LENGTH) -> None:
        self._length = length
        self._nodes: dict[str, _Node] = {}
        self._begun = False
        self.tick = 0
        self.until = 0.0

    def begin(self, tick: int, at: float) -> None:
        """Begin the step of that tick; `at` is its time in seconds since the epoch."""
        self.tick, self.until = tick, at
        self._begun = True

    def end(self) -> None:
        """End the step: of a node that was not kept in it, nothing was measured."""
        self._begun = False

    def keep(self, sample: Sample) -> None:
        """Keep what a node's last heartbeat says, as far as it is not too old by now."""
        age = self.until - sample.at
        beat = current(sample.heartbeat, age)
        if beat is None:
            return
        node = self._nodes.get(sample.id)
        if node is None:
            node = self._nodes[sample.id] = _Node(self._rings(NODE_MEASURES), self.tick)
        skipped = range(max(node.tick + 1, self.tick - self._length), self.tick)
        _put(node.rings, NODE_MEASURES, skipped, self.tick, node_values(beat))
        readings = {
            reading.uuid: reading
            for reading in beat.devices or ()
            if age + (reading.age or 0.0) <= OLD_SECONDS
        }
        for uuid in readings.keys() - node.devices.keys():
            node.devices[uuid] = _Device(self._rings(DEVICE_MEASURES), self.tick)
        for uuid, device in node.devices.items():
            self._keep_device(device, readings.get(uuid), skipped)
        node.tick = self.tick
        self._let_go(node)

    def only(self, nodes: Collection[str]) -> None:
        """Forget every node that is not one of these."""
        for name in [name for name in self._nodes if name not in nodes]:
            del self._nodes[name]

    def of(
        self, node: str, names: Collection[str] = (), points: int = LENGTH
    ) -> tuple[Series, ...]:
        """Return a node's series up to the last tick: its own, then each device's.

        Args:
            node: its id; one of which nothing was ever kept has its own series, all gaps.
            names: which measures; empty: all.
            points: how many of the last values.
        """
        seen = self._nodes.get(node) or _Node(self._rings(NODE_MEASURES), self.tick)
        missed = 0 if self._waits(seen) else min(self._length, self.tick - seen.tick)
        gap = (None,) * missed
        made = [
            (None, measure, one, None)
            for measure, one in zip(NODE_MEASURES, seen.rings, strict=True)
        ] + [
            (uuid, measure, one, device)
            for uuid, device in seen.devices.items()
            for measure, one in zip(DEVICE_MEASURES, device.rings, strict=True)
        ]
        return tuple(
            Series(
                name=measure.name,
                device=uuid,
                unit=measure.unit,
                values=(*ring.read(one, seen.tick, measure.unit), *gap)[
                    -min(points, self._length) :
                ],
                made_of=self._made_of(device) if measure.name == "work" and device else None,
            )
            for uuid, measure, one, device in made
            if not names or measure.name in names
        )

    @property
    def nodes(self) -> int:
        """Return how many nodes anything is kept of."""
        return len(self._nodes)

    @property
    def bytes_per_node(self) -> int:
        """Return the bytes that a node's rings take, on the average; 0 without nodes."""
        sizes = [self.bytes_of(name) for name in self._nodes]
        return round(sum(sizes) / len(sizes)) if sizes else 0

    def bytes_of(self, node: str) -> int:
        """Return the bytes that one node's rings take, with the objects around them."""
        seen = self._nodes[node]
        parts: list[object] = [seen, seen.rings, *seen.rings, seen.devices]
        for device in seen.devices.values():
            parts += [device, device.rings, *device.rings, device.work]
        return sum(map(sys.getsizeof, parts))

    def _waits(self, node: _Node) -> bool:
        """Say whether the step has begun and this node's turn is still to come."""
        return self._begun and node.tick == self.tick - 1

    def _rings(self, measures: tuple[Measure, ...]) -> Rings:
        return tuple(ring.empty(self._length) for _ in measures)

    def _keep_device(self, device: _Device, reading: DeviceSample | None, skipped: range) -> None:
        gap: Values = (None,) * len(DEVICE_MEASURES)
        values = gap if reading is None else device_values(reading)
        _put(device.rings, DEVICE_MEASURES, skipped, self.tick, values)
        if values != gap:
            device.last = self.tick
        done = None if reading is None else work(reading)
        if done is not None:
            device.work[done.source] = self.tick

    def _let_go(self, node: _Node) -> None:
        """Drop devices of which the whole ring is a gap, and those beyond the bound."""
        newest = sorted(node.devices, key=lambda uuid: node.devices[uuid].last, reverse=True)
        for index, uuid in enumerate(newest):
            if index >= MOST_DEVICES or self.tick - node.devices[uuid].last >= self._length:
                del node.devices[uuid]

    def _made_of(self, device: _Device) -> tuple[WorkSource, ...]:
        newest = sorted(device.work, key=device.work.__getitem__, reverse=True)
        return tuple(one for one in newest if self.tick - device.work[one] < self._length)


def _put(
    rings: Rings, measures: tuple[Measure, ...], skipped: range, tick: int, values: Values
) -> None:
    for one, measure, value in zip(rings, measures, values, strict=True):
        for missed in skipped:
            ring.put(one, missed, None, measure.unit)
        ring.put(one, tick, value, measure.unit)
