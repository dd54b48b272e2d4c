"""Nodes' own figures: cores, memory, disks, sensors, and what engines use of them."""

from collections.abc import Callable

from llmgw.control.metrics.family import GAUGE, Family, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.node import Filesystem, Heartbeat
from llmgw.model.shard import ShardUse

NOT_MEASURED = "not measured, or the measurement is older than a minute"


def _of_node(value: Callable[[Heartbeat], float | None]) -> Callable[[Snapshot], Samples]:
    return lambda seen: [((one.id,), value(one.heartbeat)) for one in seen.fresh()]


def _memory_used(beat: Heartbeat) -> float | None:
    if beat.memory_bytes is None or beat.memory_available_bytes is None:
        return None
    return beat.memory_bytes - beat.memory_available_bytes


def _of_shard(value: Callable[[ShardUse], float | None]) -> Callable[[Snapshot], Samples]:
    def read(seen: Snapshot) -> Samples:
        for sample in seen.fresh():
            for use in sample.heartbeat.shards or ():
                model = seen.models_of.get(use.replica, "")
                yield (sample.id, use.replica, str(use.rank), model), value(use)

    return read


def _of_disk(value: Callable[[Filesystem], float | None]) -> Callable[[Snapshot], Samples]:
    def read(seen: Snapshot) -> Samples:
        for sample in seen.fresh():
            for disk in sample.heartbeat.filesystems or ():
                yield (sample.id, disk.mount, disk.type or ""), value(disk)

    return read


def _of_sensor(kind: str) -> Callable[[Snapshot], Samples]:
    def read(seen: Snapshot) -> Samples:
        for sample in seen.fresh():
            for sensor in sample.heartbeat.sensors or ():
                if sensor.kind == kind:
                    yield (sample.id, sensor.label), sensor.value

    return read


_NODE = ("node",)
_SHARD = ("node", "replica", "rank", "model")
_DISK = ("node", "mount", "type")

FAMILIES = (
    Family(
        "llmgw_node_cpus",
        GAUGE,
        _NODE,
        "cores",
        "Cores of a node.",
        absent=NOT_MEASURED,
        read=_of_node(lambda beat: beat.cpus),
    ),
    Family(
        "llmgw_node_cpu_utilization_percent",
        GAUGE,
        _NODE,
        "percent",
        "Share of all cores in use between two heartbeats.",
        absent=NOT_MEASURED,
        read=_of_node(lambda beat: beat.cpu_percent),
    ),
    Family(
        "llmgw_node_load",
        GAUGE,
        _NODE,
        "-",
        "Load average over the last minute.",
        absent=NOT_MEASURED,
        read=_of_node(lambda beat: beat.load_average),
    ),
    Family(
        "llmgw_node_memory_bytes",
        GAUGE,
        _NODE,
        "bytes",
        "Memory of a node.",
        absent=NOT_MEASURED,
        read=_of_node(lambda beat: beat.memory_bytes),
    ),
    Family(
        "llmgw_node_memory_used_bytes",
        GAUGE,
        _NODE,
        "bytes",
        "Memory of a node that is not available.",
        absent=NOT_MEASURED,
        read=_of_node(_memory_used),
    ),
    Family(
        "llmgw_node_memory_available_bytes",
        GAUGE,
        _NODE,
        "bytes",
        "Memory of a node that a new process could have.",
        absent=NOT_MEASURED,
        read=_of_node(lambda beat: beat.memory_available_bytes),
    ),
    Family(
        "llmgw_node_filesystem_bytes",
        GAUGE,
        _DISK,
        "bytes",
        "Size of a filesystem that llmgw uses.",
        absent=NOT_MEASURED,
        read=_of_disk(lambda disk: disk.total_bytes),
    ),
    Family(
        "llmgw_node_filesystem_free_bytes",
        GAUGE,
        _DISK,
        "bytes",
        "Free space of a filesystem that llmgw uses.",
        absent=NOT_MEASURED,
        read=_of_disk(lambda disk: disk.free_bytes),
    ),
    Family(
        "llmgw_node_temperature_celsius",
        GAUGE,
        ("node", "sensor"),
        "degrees Celsius",
        "A temperature inside a node.",
        absent=NOT_MEASURED,
        read=_of_sensor("temperature"),
    ),
    Family(
        "llmgw_node_power_watts",
        GAUGE,
        ("node", "sensor"),
        "watts",
        "A power draw inside a node.",
        absent=NOT_MEASURED,
        read=_of_sensor("power"),
    ),
    Family(
        "llmgw_shard_cpu_cores",
        GAUGE,
        _SHARD,
        "cores",
        "Cores that an engine's processes use.",
        absent=NOT_MEASURED,
        read=_of_shard(lambda use: use.cpu_cores),
    ),
    Family(
        "llmgw_shard_memory_bytes",
        GAUGE,
        _SHARD,
        "bytes",
        "Resident memory of an engine's processes.",
        absent=NOT_MEASURED,
        read=_of_shard(lambda use: use.memory_bytes),
    ),
    Family(
        "llmgw_shard_requests_running",
        GAUGE,
        _SHARD,
        "requests",
        "Requests that an engine works on, as it says.",
        absent=NOT_MEASURED,
        read=_of_shard(lambda use: use.requests_running),
    ),
    Family(
        "llmgw_shard_requests_waiting",
        GAUGE,
        _SHARD,
        "requests",
        "Requests that wait inside an engine, as it says.",
        absent=NOT_MEASURED,
        read=_of_shard(lambda use: use.requests_waiting),
    ),
)
