"""Ranges of time of a Prometheus: what is asked for a node's history, and what is answered. Pure.

The HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

import json
import math
from collections.abc import Collection, Iterable

import msgspec

from llmgw.base.errors import Refused, Unreadable
from llmgw.control.history import LENGTH, STEP
from llmgw.model.history import DEVICE_MEASURES, NAMES, NODE_MEASURES, NodeHistory, Series, Values
from llmgw.model.record import Record
from llmgw.model.work import POWER, SM_ACTIVE, WorkSource

_OF_NODES = {
    "cpu": "llmgw_node_cpu_utilization_percent{%s}",
    "memory": "llmgw_node_memory_used_bytes{%s}",
    "load": "llmgw_node_load{%s}",
}
_OF_DEVICES = {
    "busy": "100 * llmgw_gpu_busy_ratio{%s}",
    "memory": "llmgw_gpu_memory_used_bytes{%s}",
    "power": "llmgw_gpu_power_watts{%s}",
    "temperature": "llmgw_gpu_temperature_celsius{%s}",
}
_WORK: dict[WorkSource | None, str] = {
    SM_ACTIVE: '100 * llmgw_gpu_work_ratio{%s,source="sm_active"}',
    POWER: '100 * llmgw_gpu_work_ratio{%s,source="power"}',
}
"""PromQL by measure; `%s` becomes what selects the node."""

_OURS = "and on (job, instance) llmgw_build_info{cluster=%s}"
"""Leaves what control planes of this cluster exported: another may have nodes of the same names."""


MOST_LINES = 512
"""Series of one answer: a node has at most 128 devices."""
_LINE_BYTES = 1 << 17
"""Of one series: 360 points are 15 KB."""

_SAME = 1e-6
"""Of a step: two times that differ by less are one."""

_ORDER = {name: index for index, name in enumerate(NAMES)}


class Span(Record, frozen=True, kw_only=True):
    """The points in time that are asked for, both ends included. Seconds."""

    start: float
    end: float
    step: float

    @property
    def points(self) -> int:
        """Return how many there are."""
        return round((self.end - self.start) / self.step) + 1


class Query(Record, frozen=True, kw_only=True):
    """One question: a measure, whose it is, and the expression that gives it."""

    name: str
    unit: str
    of_devices: bool
    expression: str
    work: WorkSource | None = None
    """What a `work` is made of by this expression."""


Found = dict[str | None, Values]
"""Values by the UUID of a device; None: the node's own."""


class _Line(Record, frozen=True, kw_only=True):
    metric: dict[str, str]
    values: tuple[tuple[float, str], ...] = ()


class _Matrix(Record, frozen=True, kw_only=True):
    result: tuple[msgspec.Raw, ...] = ()
    """Not read yet: a whole answer at one go would hold every other thread for long."""


class _Answer(Record, frozen=True, kw_only=True):
    status: str
    data: _Matrix | None = None
    error: str | None = None


def span(minutes: int, now: float) -> Span:
    """Return the last minutes in as many points as memory keeps of an hour.

    Points lie on whole steps: asked again a little later, all but the newest are the same.
    """
    step = max(STEP, math.ceil(minutes * 60 / LENGTH))
    end = now // step * step
    return Span(start=end - (LENGTH - 1) * step, end=end, step=step)


def queries(cluster: str, node: str, names: Collection[str]) -> tuple[Query, ...]:
    """Return what is asked; `names`: which measures, empty: all.

    Of several series of one device, as of two scraped control planes, the highest counts.
    """
    at, ours = f"node={json.dumps(node)}", _OURS % json.dumps(cluster)
    found = [
        Query(
            name=one.name,
            unit=one.unit,
            of_devices=False,
            expression=f"max({_OF_NODES[one.name] % at} {ours})",
        )
        for one in NODE_MEASURES
    ]
    for one in DEVICE_MEASURES:
        sources = _WORK if one.name == "work" else {None: _OF_DEVICES[one.name]}
        found += [
            Query(
                name=one.name,
                unit=one.unit,
                of_devices=True,
                expression=f"max by (uuid) ({expression % at} {ours})",
                work=source,
            )
            for source, expression in sources.items()
        ]
    return tuple(one for one in found if not names or one.name in names)


def read(body: bytes, asked: Span) -> Found:
    """Return the values of an answer, one a point; None where it has none.

    It takes long for a long answer: call it in a thread.

    Raises:
        Refused: it is an error in Prometheus's own words.
        Unreadable: it is something else, or more than a node has.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.data is None:
            raise Refused(f"Prometheus says: {answer.error or answer.status}"[:300])
        told = answer.data.result
        longest = max((memoryview(line).nbytes for line in told), default=0)
        if len(told) > MOST_LINES or longest > _LINE_BYTES:
            raise Unreadable(f"Prometheus answered {len(told)} series in {len(body)} bytes")
        lines = [msgspec.json.decode(line, type=_Line) for line in told]
    except msgspec.DecodeError as error:
        raise Unreadable(f"Prometheus answered {body[:80]!r}: {error}") from error
    return {line.metric.get("uuid"): _on_points(line, asked) for line in lines}


def series(answers: Iterable[tuple[Query, Found]], asked: Span) -> tuple[Series, ...]:
    """Return the answers as a history's series, in the order in which memory tells them."""
    nodes: list[Series] = []
    devices: dict[str, dict[str, Series]] = {}
    for query, found in answers:
        if not query.of_devices:
            values = found.get(None, (None,) * asked.points)
            nodes.append(Series(name=query.name, unit=query.unit, values=values))
            continue
        for uuid, values in found.items():
            if uuid is not None:
                known = devices.setdefault(uuid, {})
                known[query.name] = _with(known.get(query.name), query, uuid, values)
    return (*nodes, *(one for uuid in sorted(devices) for one in devices[uuid].values()))


def with_memory(told: NodeHistory, kept: NodeHistory) -> NodeHistory:
    """Return what Prometheus told with what memory kept laid over it.

    Memory wins where it has a value: it has every heartbeat, whenever Prometheus was set up. Each
    point takes the newest value since the point before it.
    """
    points = max((len(one.values) for one in told.series), default=0) or LENGTH
    start = told.until - (points - 1) * told.step
    found = {(one.name, one.device): one for one in told.series}
    for one in kept.series:
        first = kept.until - (len(one.values) - 1) * kept.step
        values: dict[int, float] = {}
        for index, value in enumerate(one.values):
            at = math.ceil((first + index * kept.step - start) / told.step - _SAME)
            if value is not None and 0 <= at < points:
                values[at] = value
        if values:
            key = one.name, one.device
            found[key] = _laid(found.get(key), one, values, points)
    return msgspec.structs.replace(told, series=tuple(sorted(found.values(), key=_order)))


def _laid(known: Series | None, kept: Series, values: dict[int, float], points: int) -> Series:
    before = (None,) * points if known is None else known.values
    made_of = (*(kept.made_of or ()), *((known.made_of if known else None) or ()))
    return msgspec.structs.replace(
        kept,
        values=tuple(values.get(index, value) for index, value in enumerate(before)),
        made_of=tuple(dict.fromkeys(made_of)) or None,
    )


def _order(one: Series) -> tuple[bool, str, int]:
    """Return what puts the node's own series first, then each device's."""
    return one.device is not None, one.device or "", _ORDER[one.name]


def _with(known: Series | None, query: Query, uuid: str, values: Values) -> Series:
    """Return a device's series with what one more query found; what was found first stays."""
    made_of = None if query.work is None else (query.work,)
    if known is None:
        return Series(name=query.name, device=uuid, unit=query.unit, values=values, made_of=made_of)
    merged = tuple(
        later if first is None else first for first, later in zip(known.values, values, strict=True)
    )
    more = merged != known.values
    return msgspec.structs.replace(
        known, values=merged, made_of=(*(known.made_of or ()), *(made_of or () if more else ()))
    )


def _on_points(line: _Line, asked: Span) -> Values:
    found: list[float | None] = [None] * asked.points
    for at, text in line.values:
        try:
            value = float(text)
        except ValueError as error:
            raise Unreadable(f"Prometheus answered {text[:40]!r}, which is no number") from error
        index = round((at - asked.start) / asked.step)
        if 0 <= index < asked.points and math.isfinite(value):
            found[index] = value
    return tuple(found)
