"""How a node and its devices were: charts, as many side by side as there is room for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from llmgw.model.device import Device
from llmgw.model.history import DEVICE_MEASURES, HOUR, NODE_MEASURES, Measure
from llmgw.model.work import WorkSource
from llmgw_tui.draw.chart import Trend, chart, duration
from llmgw_tui.draw.devices import WORK_OF
from llmgw_tui.draw.page import GUTTER, PageLine, Section
from llmgw_tui.draw.seen import NodeSeen, When, device_name
from llmgw_tui.draw.text import Piece, clean, fit, said

TITLE = "Last"
"""How the section's title begins; what follows is the time."""
MINUTES = (10, HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR)
"""The times that can be chosen; those beyond an hour are asked of a Prometheus."""
COLUMN = 44
"""Cells that a chart needs to stand beside another."""
MOST_COLUMNS = 3
HEIGHT, ALONE_HEIGHT = 6, 8
"""Lines of a chart beside others, and of one alone."""
LATE = 3
"""Steps without a reading that are a wait for the next one and not yet a gap."""

_TITLES = {"busy": "busy", "power": "power", "temperature": "heat", "load": "load", "cpu": "cpu"}


class Choice(NamedTuple):
    """What is looked at: a measure (empty: all that fit), a device by UUID, and how long back."""

    series: str = ""
    device: str = ""
    minutes: int = HOUR


Key = tuple[str | None, str]
"""A device's UUID, or None for the node, and the name of a measure."""


@dataclass(frozen=True, slots=True)
class Trends:
    """What is known of a node's past. Seconds."""

    step: float = 10.0
    last: int = 0
    """The number of the last value, counted in steps since the epoch."""
    values: Mapping[Key, Sequence[float | None]] = field(default_factory=dict)
    made_of: Mapping[str, tuple[WorkSource, ...]] = field(default_factory=dict)
    """What the work of a device was made of."""
    words: str = ""
    """Why there is nothing, or less than was asked for."""


def columns_of(width: int) -> int:
    """Return how many charts stand side by side."""
    return max(1, min(MOST_COLUMNS, (width + GUTTER) // (COLUMN + GUTTER)))


def chosen_device(seen: NodeSeen, choice: Choice) -> Device | None:
    """Return the device that is looked at: the chosen one while it is there, else the first."""
    devices = seen.hardware
    return next((one for one in devices if one.uuid == choice.device), next(iter(devices), None))


def other_device(seen: NodeSeen, choice: Choice, step: int, columns: int) -> Choice:
    """Return the choice with the next device, or with the one before; around at the ends.

    Where one measure of all devices shows, it is all measures of the device that is looked at.
    """
    devices = seen.hardware
    now = chosen_device(seen, choice)
    if now is None:
        return choice
    if columns > 1 and choice.series:
        return choice._replace(series="", device=now.uuid)
    return choice._replace(device=devices[(devices.index(now) + step) % len(devices)].uuid)


def other_series(seen: NodeSeen, choice: Choice, step: int, columns: int) -> Choice:
    """Return the choice with the next measure, or with the one before; around at the ends."""
    known = options(seen, columns)
    at = known.index(choice.series) if choice.series in known else 0
    return choice._replace(series=known[(at + step) % len(known)])


def other_time(choice: Choice) -> Choice:
    """Return the choice with the next span of time."""
    at = MINUTES.index(choice.minutes) if choice.minutes in MINUTES else 0
    return choice._replace(minutes=MINUTES[(at + 1) % len(MINUTES)])


def options(seen: NodeSeen, columns: int) -> tuple[str, ...]:
    """Return what can be chosen; with one column one chart at a time, the node's own last."""
    of_devices = tuple(one.name for one in DEVICE_MEASURES) if seen.hardware else ()
    if columns > 1:
        return ("", *of_devices)
    return (*of_devices, *(f"node {one.name}" for one in NODE_MEASURES))


def section(seen: NodeSeen, trends: Trends, choice: Choice, when: When, width: int) -> Section:
    """Return the charts' section; without any reading it says why."""
    columns = columns_of(width)
    device = chosen_device(seen, choice)
    title = f"{TITLE} {duration(choice.minutes * 60)}"
    notes = said((_notes(seen, device, choice, columns), "dim"))
    lines: list[PageLine] = []
    if trends.words:
        lines.append(PageLine(said((clean(trends.words), "moving" if trends.values else "dim"))))
    if trends.values:
        drawer = _Drawer(seen, trends, choice, when)
        lines += drawer.grid(width, columns) if columns > 1 else drawer.alone(width)
    return Section(title, tuple(lines), notes)


def _notes(seen: NodeSeen, device: Device | None, choice: Choice, columns: int) -> str:
    """Return which device shows, and which of how many it is."""
    if device is None or choice.series.startswith("node ") or (columns > 1 and choice.series):
        return ""
    devices = seen.hardware
    return f"{device_name(device)}, {devices.index(device) + 1} of {len(devices)}"


class _Drawer:
    """Draws the charts of one moment."""

    def __init__(self, seen: NodeSeen, trends: Trends, choice: Choice, when: When) -> None:
        self._seen = seen
        self._trends = trends
        self._choice = choice
        points = round(choice.minutes * 60 / trends.step)
        now = int(when.now // trends.step)
        self._last = now if now - trends.last >= LATE else trends.last
        self._missing = min(points, max(0, self._last - trends.last))
        self._points = points

    def alone(self, width: int) -> list[PageLine]:
        """Return the one chosen chart."""
        known = options(self._seen, 1)
        series = self._choice.series if self._choice.series in known else known[0]
        if series.startswith("node "):
            measure = _named(series.removeprefix("node "), NODE_MEASURES)
            trend = self._of_node(measure)
        else:
            device = chosen_device(self._seen, self._choice)
            if device is None:
                return []
            trend = self._of_device(device, _named(series, DEVICE_MEASURES), named=True)
        return [PageLine(pieces) for pieces in chart(trend, width, ALONE_HEIGHT)]

    def grid(self, width: int, columns: int) -> list[PageLine]:
        """Return all charts of a device and of the node, or one measure of all devices."""
        if self._choice.series in {one.name for one in DEVICE_MEASURES} and self._seen.hardware:
            measure = _named(self._choice.series, DEVICE_MEASURES)
            trends = [self._of_device(one, measure, named=True) for one in self._seen.hardware]
        else:
            device = chosen_device(self._seen, self._choice)
            trends = [self._of_node(measure) for measure in NODE_MEASURES]
            if device is not None:
                trends = [
                    *(self._of_device(device, measure, named=False) for measure in DEVICE_MEASURES),
                    # The load says nothing that is looked for beside devices.
                    *trends[:2],
                ]
        drawn = [trend for trend in trends if any(value is not None for value in trend.values)]
        silent = [trend.title for trend in trends if trend not in drawn]
        lines = _side_by_side(drawn, width, columns)
        if silent:
            words = f"nothing measured in this time: {', '.join(silent)}"
            lines.append(PageLine(said((words, "absent"))))
        return lines

    def _of_node(self, measure: Measure) -> Trend:
        top = None
        if measure.name == "memory":
            top = self._seen.memory_total
        elif measure.name == "load":
            beat = self._seen.beat
            top = beat.cpus if beat else None
        title = _TITLES.get(measure.name, f"node {measure.name}")
        return self._trend(title, (None, measure.name), measure.unit, top)

    def _of_device(self, device: Device, measure: Measure, *, named: bool) -> Trend:
        reading = self._seen.readings.get(device.uuid)
        top: float | None = None
        if measure.name == "memory":
            top = (reading.memory_total_bytes if reading else None) or device.memory_bytes
        elif measure.name == "power":
            top = reading.power_limit_watts if reading else None
        title = _TITLES.get(measure.name, measure.name)
        if measure.name == "work":
            title += _work_of(self._trends.made_of.get(device.uuid, ()))
        if named:
            title = f"{device_name(device)} {title}"
        return self._trend(title, (device.uuid, measure.name), measure.unit, top)

    def _trend(self, title: str, key: Key, unit: str, top: float | None) -> Trend:
        known = self._trends.values.get(key, ())
        values = (*known, *(None,) * self._missing)[-self._points :]
        values = (*(None,) * (self._points - len(values)), *values)
        return Trend(title, values, self._last, self._trends.step, unit, top)


def _side_by_side(trends: Sequence[Trend], width: int, columns: int) -> list[PageLine]:
    each = (width - GUTTER * (columns - 1)) // columns
    lines: list[PageLine] = []
    for first in range(0, len(trends), columns):
        row = [chart(trend, each, HEIGHT) for trend in trends[first : first + columns]]
        for index in range(HEIGHT):
            pieces: list[Piece] = []
            for drawn in row:
                pieces += fit(drawn[index], each)
                pieces.append(Piece(" " * GUTTER))
            lines.append(PageLine(tuple(pieces[:-1])))
    return lines


def _work_of(sources: Sequence[WorkSource]) -> str:
    """Return what a device's work is made of; where it changed, both, the newest first."""
    words = ", before that ".join(WORK_OF.get(source, source) for source in sources)
    return f" ({words})" if words else ""


def _named(name: str, measures: Sequence[Measure]) -> Measure:
    return next(measure for measure in measures if measure.name == name)
