"""Snapshots for tests of metrics, and what is read of their text by Prometheus's own client."""

import dataclasses
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from llmgw.control.metrics.collector import render
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.device import Device, DeviceHealth, DeviceSample
from llmgw.model.node import Heartbeat, Inventory, Node, Sample
from llmgw.plan.records import Booking, NodeRoom
from tests.fakes.fleet_parts import NOW

BY_NAME = {family.name: family for family in FAMILIES}

EMPTY = Snapshot(
    now=NOW,
    cluster="lab",
    server="control-1",
    version="0.1.0",
    leader=True,
    settled=True,
    term=3,
    followers=0,
    agents=0,
    rooms=(),
    samples={},
    replicas=(),
    routes=(),
    gateways=(),
    traffic=(),
    passes={},
    plan=None,
    models_of={},
)


def seen(**changed: object) -> Snapshot:
    return dataclasses.replace(EMPTY, **changed)  # type: ignore[arg-type]


def of_node(one: NodeRoom, sample: Sample | None = None, **changed: object) -> Snapshot:
    """Return the moment of a fleet of one node."""
    samples = {} if sample is None else {sample.id: sample}
    return seen(rooms=(one,), samples=samples, **changed)


def of_devices(
    *devices: Device,
    readings: tuple[DeviceSample, ...] | None = None,
    health: tuple[DeviceHealth, ...] | None = None,
    at: float = NOW,
    **fields: Any,
) -> Snapshot:
    """Return the moment of one node with devices, and its last heartbeat."""
    sample = beat(at=at, devices=readings, health=health)
    return of_node(room("gpu-01", *devices, **fields), sample)


def room(node: str, *devices: Device, held: tuple[str, ...] = (), **fields: object) -> NodeRoom:
    known: dict[str, object] = {"liveness": "ready", "inventory": Inventory(devices=devices)}
    record = Node(id=node, **(known | fields))  # type: ignore[arg-type]
    booking = Booking(replica="m-1", rank=0, model="m", devices=held)
    return NodeRoom(node=record, bookings=(booking,) if held else ())


def beat(node: str = "gpu-01", at: float = NOW, **fields: object) -> Sample:
    return Sample(id=node, at=at, heartbeat=Heartbeat(sequence=1, **fields))  # type: ignore[arg-type]


def parsed(snapshot: Snapshot) -> dict[str, Metric]:
    """Return what Prometheus's own client reads of the text, by the families' names."""
    metrics = text_string_to_metric_families(render(snapshot).decode())
    return {_name(metric): metric for metric in metrics}


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def values(snapshot: Snapshot, name: str) -> dict[tuple[str, ...], float]:
    """Return a family's samples by their labels' values, in the declared order."""
    labels = BY_NAME[name].labels
    metric = parsed(snapshot).get(name)
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for sample in (metric.samples if metric is not None else ())
    }


def named(snapshot: Snapshot, starts: str | tuple[str, ...] = "llmgw") -> set[str]:
    """Return the names of the families that have a sample."""
    return {name for name in parsed(snapshot) if name.startswith(starts)}


def by(samples: dict[tuple[str, ...], float], *places: int) -> dict[tuple[str, ...], float]:
    """Return samples by some of their labels alone."""
    return {tuple(labels[place] for place in places): one for labels, one in samples.items()}
