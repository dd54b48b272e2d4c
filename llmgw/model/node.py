"""A machine with an agent: what it is, how it is."""

import msgspec

from llmgw.model.device import Device, DeviceHealth, DeviceSample
from llmgw.model.fabric import NvlinkDomain, Port, SubnetManager
from llmgw.model.record import Record
from llmgw.model.shape import ModelShape
from llmgw.model.shard import ShardStatus, ShardUse

READY = "ready"
UNREACHABLE = "unreachable"
LOST = "lost"

CORDONED = "cordoned"
DRAINING = "draining"
WISHES = (CORDONED, DRAINING)

INSTALLED = "installed"
INSTALLING = "installing"
FAILED = "failed"


class Host(Record, frozen=True, kw_only=True):
    """The machine itself. Bytes; GB/s for bandwidth."""

    hostname: str | None = None
    boot_id: str | None = None
    os: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    cpus: int | None = None
    cpu_extensions: tuple[str, ...] | None = None
    memory_bytes: int | None = None
    nvidia_driver: str | None = None
    cuda_version: str | None = None
    mem_bandwidth_gbs: float | None = None
    mem_bandwidth_core_gbs: float | None = None


class Filesystem(Record, frozen=True, kw_only=True):
    """Space of one filesystem, in bytes, however many directories lie on it."""

    mount: str
    type: str | None = None
    shared: bool | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    directories: tuple[str, ...] = ()


class InstalledEngine(Record, frozen=True, kw_only=True):
    """An engine on a node, installed, being installed or failed to."""

    engine: str
    version: str | None = None
    state: str | None = None
    """`installed`, `installing` or `failed`."""
    words: str | None = None
    """The node's own words: `installing: downloading llama.cpp (16 MB)`."""
    path: str | None = None
    by_operator: bool | None = None
    back_ends: tuple[str, ...] | None = None


class WeightsHeld(Record, frozen=True, kw_only=True):
    """A set of weights on a node."""

    name: str
    """The cache name (a hash of the source) or the path."""
    model: str | None = None
    size_bytes: int | None = None
    shared: bool | None = None
    by_llmgw: bool | None = None
    complete: bool | None = None
    shape: ModelShape | None = None
    """What the model is made of; None where nobody could read it."""


class Sensor(Record, frozen=True, kw_only=True):
    """One hwmon or RAPL reading. Degrees Celsius or watts by kind."""

    kind: str
    """`temperature` or `power`."""
    label: str
    value: float | None = None


class NodeWarning(Record, frozen=True, kw_only=True):
    """Something about a node that a person should know."""

    subject: str
    words: str


class ProbeState(Record, frozen=True, kw_only=True):
    """How a source of facts is doing. Seconds."""

    name: str
    age: float | None = None
    """Of the last reading, or of the last answer that there is nothing to read; None: neither."""
    error: str | None = None
    """Why the last try gave no reading; None: it did."""
    failing: float | None = None
    """How long it has failed, since the first try that did."""
    period: float | None = None


class Inventory(Record, frozen=True, kw_only=True):
    """What a node has. A field that is None says nothing and changes nothing (invariant 4)."""

    host: Host | None = None
    devices: tuple[Device, ...] | None = None
    filesystems: tuple[Filesystem, ...] | None = None
    engines: tuple[InstalledEngine, ...] | None = None
    engines_probed: bool | None = None
    can_install: tuple[str, ...] | None = None
    ports: tuple[Port, ...] | None = None
    subnet_managers: tuple[SubnetManager, ...] | None = None
    nvlink_domain: NvlinkDomain | None = None
    weights: tuple[WeightsHeld, ...] | None = None
    warnings: tuple[NodeWarning, ...] | None = None


class Register(Record, frozen=True, kw_only=True):
    """An agent's first message on a stream."""

    node: str
    agent_version: str | None = None
    boot: str | None = None
    """Random, new with each start of the agent."""
    machine: str | None = None
    """The machine's boot id."""
    address: str | None = None
    """Where engines on this node are reached."""
    features: tuple[str, ...] | None = None
    """Requests that this agent answers; None: it cannot say."""
    labels: dict[str, str] | None = None
    highest_term: int | None = None
    settings_version: int | None = None
    inventory: Inventory | None = None
    shards: tuple[ShardStatus, ...] | None = None
    """Everything that runs now, with full specs; None: it cannot say."""


class Heartbeat(Record, frozen=True, kw_only=True):
    """What changes, each interval. Bytes, percent 0-100, seconds."""

    sequence: int
    sent: float | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    cpu_percent: float | None = None
    load_average: float | None = None
    """Over the last minute."""
    devices: tuple[DeviceSample, ...] | None = None
    filesystems: tuple[Filesystem, ...] | None = None
    shards: tuple[ShardUse, ...] | None = None
    ports: tuple[Port, ...] | None = None
    sensors: tuple[Sensor, ...] | None = None
    probes: tuple[ProbeState, ...] | None = None
    health: tuple[DeviceHealth, ...] | None = None
    weights_print: str | None = None
    """Fingerprint over paths and sizes of the weights held."""
    weights: tuple[WeightsHeld, ...] | None = None
    """Only when the fingerprint changed: an empty list means `holds nothing`."""
    mem_bandwidth_gbs: float | None = None
    mem_bandwidth_core_gbs: float | None = None


class Node(Record, frozen=True, kw_only=True):
    """A node as the control plane knows it: topic `nodes`. Times in seconds since the epoch."""

    id: str
    liveness: str | None = None
    """`ready`, `unreachable` or `lost`; None: known from the store, not heard of yet."""
    wish: str | None = None
    """`draining`, `cordoned` or None."""
    health: tuple[str, ...] = ()
    """Reasons why something is wrong with it; empty when nothing is known to be."""
    connected: bool = False
    address: str | None = None
    peer: str | None = None
    """Where its stream comes from."""
    agent_version: str | None = None
    features: tuple[str, ...] | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    since: float | None = None
    """When its liveness last changed."""
    last_heard: float | None = None
    """Of a node that is not ready; a ready node was heard within an interval."""
    inventory: Inventory = Inventory()
    certificate_ends: float | None = None
    certificate_begins: float | None = None


class Sample(Record, frozen=True, kw_only=True):
    """A node's last heartbeat: topic `samples`."""

    id: str
    at: float
    heartbeat: Heartbeat
