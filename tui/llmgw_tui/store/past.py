"""One node's past: asked for once, then carried on by the heartbeats that come anyway."""

from collections import deque

from llmgw.model.history import (
    DEVICE_MEASURES,
    NODE_MEASURES,
    Measure,
    NodeHistory,
    Values,
    device_values,
    node_values,
)
from llmgw.model.node import Sample
from llmgw.model.work import WorkSource, work
from llmgw_tui.draw.trends import Key, Trends


class Past:
    """Series of one node, as long as they were when they were asked for.

    Invariant: every series has the same length, and its last value is that of step `last`.
    """

    def __init__(self, told: NodeHistory) -> None:
        self._step = told.step
        self._last = int(told.until // told.step)
        self._length = max([1, *(len(one.values) for one in told.series)])
        self._values: dict[Key, deque[float | None]] = {
            (one.device, one.name): self._ring(one.values) for one in told.series
        }
        self._made_of: dict[str, tuple[WorkSource, ...]] = {
            one.device: one.made_of for one in told.series if one.device and one.made_of
        }
        self._words = told.problem or ""

    def add(self, sample: Sample) -> None:
        """Carry on with a heartbeat: a new step, or a newer reading of the step that lasts."""
        passed = int(sample.at // self._step) - self._last
        if passed < 0:
            return
        for values in self._values.values():
            values.extend([None] * min(passed, self._length))
        self._last += passed
        beat = sample.heartbeat
        self._put(None, NODE_MEASURES, node_values(beat))
        for reading in beat.devices or ():
            self._put(reading.uuid, DEVICE_MEASURES, device_values(reading))
            done = work(reading)
            if done is not None:
                older = self._made_of.get(reading.uuid, ())
                self._made_of[reading.uuid] = (
                    done.source,
                    *(one for one in older if one != done.source),
                )

    def seen(self) -> Trends:
        """Return what there is, to be drawn."""
        return Trends(self._step, self._last, self._values, self._made_of, self._words)

    def _put(self, device: str | None, measures: tuple[Measure, ...], values: Values) -> None:
        for measure, value in zip(measures, values, strict=True):
            if value is not None:
                key = (device, measure.name)
                known = self._values.get(key)
                if known is None:
                    known = self._values[key] = self._ring(())
                known[-1] = value

    def _ring(self, values: Values) -> deque[float | None]:
        filled = [*([None] * self._length), *values][-self._length :]
        return deque(filled, maxlen=self._length)
