"""Nodes' own figures: cores, memory, disks, sensors, and what engines use of them."""

from collections.abc import Callable
from operator import attrgetter

from llmgw.control.metrics.devices import NODE_GONE
from llmgw.control.metrics.family import Figures, NodeFamily
from llmgw.control.metrics.onenode import OneNode, first_of
from llmgw.control.metrics.text import labelled, shown
from llmgw.model.node import Filesystem, Heartbeat, Host
from llmgw.model.shard import ShardUse

NOT_MEASURED = "not measured, or the measurement is older than a minute"

_NODE = ("node",)
_SHARD = ("node", "replica", "rank", "model")
_DISK = ("node", "mount", "type", "shared")
_INFO = ("agent_version", "os", "kernel", "architecture", "driver", "cuda")


def _of_node(value: Callable[[Heartbeat], float | None]) -> Callable[[OneNode], Figures]:
    return lambda node: () if node.beat is None else ((node.text, value(node.beat)),)


def _info(node: OneNode) -> Figures:
    if not node.there:
        return
    host = node.room.node.inventory.host or Host()
    said = (
        node.room.node.agent_version,
        host.os,
        host.kernel,
        host.architecture,
        host.nvidia_driver,
        host.cuda_version,
    )
    yield f"{node.text},{labelled(_INFO, (text or '' for text in said))}", 1


def _warnings(node: OneNode) -> Figures:
    if node.there:
        yield node.text, len(node.room.node.health)


def _memory_used(beat: Heartbeat) -> float | None:
    if beat.memory_bytes is None or beat.memory_available_bytes is None:
        return None
    return beat.memory_bytes - beat.memory_available_bytes


def _reserved(node: OneNode) -> Figures:
    """Yield what shards hold of a node's memory; nothing when it is not known of one of them."""
    sizes = [booking.memory_bytes for booking in node.room.bookings]
    known = [size for size in sizes if size is not None]
    if node.there and len(known) == len(sizes):
        yield node.text, sum(known)


def _bandwidth(node: OneNode) -> Figures:
    host = node.room.node.inventory.host if node.there else None
    if host is not None:
        for scope, gbs in (
            ("machine", host.mem_bandwidth_gbs),
            ("core", host.mem_bandwidth_core_gbs),
        ):
            yield f'{node.text},scope="{scope}"', None if gbs is None else gbs * 1e9


def _weights(node: OneNode) -> Figures:
    held = node.room.node.inventory.weights if node.there else None
    if held is None:
        return
    for shared, name in ((False, "false"), (True, "true")):
        sizes = (one.size_bytes or 0 for one in held if bool(one.shared) is shared)
        yield f'{node.text},shared="{name}"', sum(sizes)


def _of_shard(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: first_of(
        (_shard(node, use), value(use)) for use in (node.beat.shards if node.beat else None) or ()
    )


def _shard(node: OneNode, use: ShardUse) -> str:
    model = node.models_of.get(use.replica, "")
    return f'{node.text},replica="{shown(use.replica)}",rank="{use.rank}",model="{shown(model)}"'


def _of_disk(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: first_of(
        (_disk(node, disk), value(disk))
        for disk in (node.beat.filesystems if node.beat else None) or ()
    )


def _disk(node: OneNode, disk: Filesystem) -> str:
    shared = "" if disk.shared is None else str(disk.shared).lower()
    return (
        f'{node.text},mount="{shown(disk.mount)}",type="{shown(disk.type or "")}",shared="{shared}"'
    )


def _of_sensor(kind: str) -> Callable[[OneNode], Figures]:
    return lambda node: first_of(
        (f'{node.text},sensor="{shown(sensor.label)}"', sensor.value)
        for sensor in (node.beat.sensors if node.beat else None) or ()
        if sensor.kind == kind
    )


FAMILIES = (
    NodeFamily(
        name="llmgw_node_info",
        labels=(*_NODE, *_INFO),
        unit="-",
        help="1; the labels tell what a node runs.",
        absent=NODE_GONE,
        read=_info,
    ),
    NodeFamily(
        name="llmgw_node_warnings",
        labels=_NODE,
        unit="warnings",
        help="How many things are wrong with a node, as its page lists them.",
        absent=NODE_GONE,
        read=_warnings,
    ),
    NodeFamily(
        name="llmgw_node_cpus",
        labels=_NODE,
        unit="cores",
        help="Cores of a node.",
        absent=NOT_MEASURED,
        read=_of_node(attrgetter("cpus")),
    ),
    NodeFamily(
        name="llmgw_node_cpu_utilization_percent",
        labels=_NODE,
        unit="percent",
        help="Share of all cores in use between two heartbeats.",
        absent=NOT_MEASURED,
        read=_of_node(attrgetter("cpu_percent")),
    ),
    NodeFamily(
        name="llmgw_node_load",
        labels=_NODE,
        unit="-",
        help="Load average over the last minute.",
        absent=NOT_MEASURED,
        read=_of_node(attrgetter("load_average")),
    ),
    NodeFamily(
        name="llmgw_node_memory_bytes",
        labels=_NODE,
        unit="bytes",
        help="Memory of a node.",
        absent=NOT_MEASURED,
        read=_of_node(attrgetter("memory_bytes")),
    ),
    NodeFamily(
        name="llmgw_node_memory_used_bytes",
        labels=_NODE,
        unit="bytes",
        help="Memory of a node that is not available.",
        absent=NOT_MEASURED,
        read=_of_node(_memory_used),
    ),
    NodeFamily(
        name="llmgw_node_memory_available_bytes",
        labels=_NODE,
        unit="bytes",
        help="Memory of a node that a new process could have.",
        absent=NOT_MEASURED,
        read=_of_node(attrgetter("memory_available_bytes")),
    ),
    NodeFamily(
        name="llmgw_node_memory_reserved_bytes",
        labels=_NODE,
        unit="bytes",
        help="Memory of a node that live shards were given.",
        absent="a shard does not tell what it was given, or " + NODE_GONE,
        read=_reserved,
    ),
    NodeFamily(
        name="llmgw_node_mem_bandwidth_bytes_per_second",
        labels=(*_NODE, "scope"),
        unit="bytes/s",
        help="How fast a node reads its memory; scope: the whole machine or one core.",
        absent="until it was measured, which is once, some seconds after the agent registered; "
        "where measuring is switched off; or " + NODE_GONE,
        read=_bandwidth,
    ),
    NodeFamily(
        name="llmgw_node_filesystem_bytes",
        labels=_DISK,
        unit="bytes",
        help="Size of a filesystem that llmgw uses; a shared one is told by every node.",
        absent=NOT_MEASURED,
        read=_of_disk("total_bytes"),
    ),
    NodeFamily(
        name="llmgw_node_filesystem_free_bytes",
        labels=_DISK,
        unit="bytes",
        help="Free space of a filesystem that llmgw uses.",
        absent=NOT_MEASURED,
        read=_of_disk("free_bytes"),
    ),
    NodeFamily(
        name="llmgw_node_weights_bytes",
        labels=(*_NODE, "shared"),
        unit="bytes",
        help="Weights that a node holds, as far as their size is known; shared: on a filesystem "
        "of several nodes.",
        absent="a node that was not told where to look and fetched none, or " + NODE_GONE,
        read=_weights,
    ),
    NodeFamily(
        name="llmgw_node_temperature_celsius",
        labels=(*_NODE, "sensor"),
        unit="degrees Celsius",
        help="A temperature inside a node.",
        absent=NOT_MEASURED,
        read=_of_sensor("temperature"),
    ),
    NodeFamily(
        name="llmgw_node_power_watts",
        labels=(*_NODE, "sensor"),
        unit="watts",
        help="A power draw inside a node.",
        absent=NOT_MEASURED,
        read=_of_sensor("power"),
    ),
    NodeFamily(
        name="llmgw_shard_cpu_cores",
        labels=_SHARD,
        unit="cores",
        help="Cores that an engine's processes use.",
        absent=NOT_MEASURED,
        read=_of_shard("cpu_cores"),
    ),
    NodeFamily(
        name="llmgw_shard_memory_bytes",
        labels=_SHARD,
        unit="bytes",
        help="Resident memory of an engine's processes.",
        absent=NOT_MEASURED,
        read=_of_shard("memory_bytes"),
    ),
    NodeFamily(
        name="llmgw_shard_requests_running",
        labels=_SHARD,
        unit="requests",
        help="Requests that an engine says it serves now.",
        absent="the engine does not say, or not for a minute; of shards that answer no requests",
        read=_of_shard("requests_running"),
    ),
    NodeFamily(
        name="llmgw_shard_requests_waiting",
        labels=_SHARD,
        unit="requests",
        help="Requests that an engine says wait in it.",
        absent="the engine does not say, or not for a minute; of shards that answer no requests",
        read=_of_shard("requests_waiting"),
    ),
    NodeFamily(
        name="llmgw_shard_cache_used_ratio",
        labels=_SHARD,
        unit="0 to 1",
        help="Share of an engine's KV cache that requests hold, as it says.",
        absent="the engine does not say, or not for a minute; of shards that answer no requests",
        read=_of_shard("cache_used"),
    ),
)
