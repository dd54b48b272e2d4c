"""The series of which a control plane keeps the last hour, and how they are told."""

from llmgw.model.device import DeviceSample
from llmgw.model.node import Heartbeat
from llmgw.model.record import Record
from llmgw.model.work import WorkSource, work

PERCENT = "percent"
BYTES = "bytes"
WATTS = "watts"
CELSIUS = "celsius"
LOAD = "load"

MEMORY = "memory"
PROMETHEUS = "prometheus"
"""Sources of a history: the control plane's own memory, or the Prometheus that scrapes it."""

HOUR = 60
"""Minutes that are kept in memory."""

OLD_SECONDS = 60.0
"""A reading older than this is left out, not repeated."""


class Measure(Record, frozen=True, kw_only=True):
    """One thing that is measured again and again."""

    name: str
    unit: str


NODE_MEASURES = (
    Measure(name="cpu", unit=PERCENT),
    Measure(name="memory", unit=BYTES),
    Measure(name="load", unit=LOAD),
)
"""Of a node: use of all cores, memory that is not available, load average over a minute."""

DEVICE_MEASURES = (
    Measure(name="busy", unit=PERCENT),
    Measure(name="work", unit=PERCENT),
    Measure(name="memory", unit=BYTES),
    Measure(name="power", unit=WATTS),
    Measure(name="temperature", unit=CELSIUS),
)
"""Of a device: `busy` is the share of time in which any kernel ran, `work` that of the module."""

NAMES = tuple(dict.fromkeys(one.name for one in (*NODE_MEASURES, *DEVICE_MEASURES)))

Values = tuple[float | None, ...]


class Series(Record, frozen=True, kw_only=True):
    """One measure of a node, or of one of its devices."""

    name: str
    device: str | None = None
    """UUID; None: of the node itself."""
    unit: str
    values: Values = ()
    """Oldest first, one a step, the last at `until`; None where nothing was measured."""
    made_of: tuple[WorkSource, ...] | None = None
    """What `work` was made of in this time, the newest first; None for other measures."""


class NodeHistory(Record, frozen=True, kw_only=True):
    """How a node was. Seconds."""

    step: float
    """Between two values."""
    until: float
    """When the last value was taken, in seconds since the epoch."""
    series: tuple[Series, ...]
    source: str
    """`memory`, or `prometheus`: the last hour is from memory then too, where that has values."""
    problem: str | None = None
    """Why less is told than was asked for; None: it is all there."""


def node_values(beat: Heartbeat) -> Values:
    """Return what a heartbeat says of each of `NODE_MEASURES`."""
    used = None
    if beat.memory_bytes is not None and beat.memory_available_bytes is not None:
        used = beat.memory_bytes - beat.memory_available_bytes
    return beat.cpu_percent, used, beat.load_average


def device_values(reading: DeviceSample) -> Values:
    """Return what a device's readings say of each of `DEVICE_MEASURES`."""
    done = work(reading)
    return (
        reading.busy_percent,
        None if done is None else done.ratio * 100,
        reading.memory_used_bytes,
        reading.power_watts,
        reading.temperature_celsius,
    )
