"""One engine process on one node: what it is told, how it is, what it computes on."""

from llmgw.model.catalog import (
    Adapter,
    HubSource,
    MirrorSource,
    PackageSource,
    PathSource,
    UrlSource,
)
from llmgw.model.record import Record

FETCHING = "fetching"
STARTING = "starting"
READY = "ready"
STOPPING = "stopping"
STOPPED = "stopped"
FAILED = "failed"
STUCK = "stuck"

LIVE = frozenset({FETCHING, STARTING, READY, STOPPING, STUCK})
"""States in which a shard holds its devices and memory."""

OUT_OF_MEMORY = "out_of_memory"
BAD_FILE = "bad_file"
NO_WEIGHTS = "no_weights"
"""The weights could not be had."""
PORT_TAKEN = "port_taken"
NO_ENGINE = "no_engine"
NO_GPU = "no_gpu"
DRIVER_TOO_OLD = "driver_too_old"
BAD_BUILD = "bad_build"
"""The engine was built for a processor with other instructions."""
INVALID = "invalid"
"""The profile can't run on this node; nothing was launched."""
NOT_READY = "not_ready"
"""The limit for its start-up passed."""
NOT_STOPPED = "not_stopped"
"""Its processes could not be ended: it stays `stopping` and holds what it held."""
EXITED = "exited"


class Rendezvous(Record, frozen=True, kw_only=True):
    """Where the shards of a replica of several nodes meet."""

    address: str
    port: int
    world: int
    """How many shards the replica has."""
    nodes: tuple[str, ...] = ()
    """Where each shard was sent, by rank; empty: an older control plane sent them."""


class ShardSpec(Record, frozen=True, kw_only=True):
    """Everything that a node needs to run one shard; the plan leaves no choice open.

    The replica's key is not in it: it travels beside it in `StartShard` and is kept apart.
    """

    replica: str
    rank: int = 0
    model: str
    profile: str
    fingerprint: str
    engine: str
    engine_version: str | None = None
    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource | None = None
    """Where the weights are from; None for an engine that needs none."""
    devices: tuple[str, ...] = ()
    """UUIDs; empty for a replica on the CPU."""
    memory_bytes: int | None = None
    """Host memory reserved for it."""
    cpu_cores: int | None = None
    context: int | None = None
    """Tokens a request may use, prompt and reply."""
    concurrency: int | None = None
    """Requests that the engine serves at once."""
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    arguments: tuple[str, ...] = ()
    ready_timeout: float | None = None
    adapters: tuple[Adapter, ...] = ()
    allow_pickle: bool | None = None
    kv_events: bool | None = None
    rendezvous: Rendezvous | None = None
    nvlink_domain: str | None = None
    """The NVLink domain in which the cards of all its replica's shards are: `cluster/clique`; None:
    they reach each other over the network."""
    network_ports: tuple[str, ...] = ()
    """This node's ports on the one network of all its replica's shards: `mlx5_0/1`."""
    disk_bytes: int | None = None
    """What its weights take of the node's disk where they are not held yet."""


class Progress(Record, frozen=True, kw_only=True):
    """How far a long step is. Without a total there is no percentage to show."""

    words: str
    done_bytes: int | None = None
    total_bytes: int | None = None


class ComputeDevice(Record, frozen=True, kw_only=True):
    """Where an engine put its model buffers."""

    name: str
    back_end: str | None = None
    model_bytes: int | None = None
    description: str | None = None


class ComputeReport(Record, frozen=True, kw_only=True):
    """What an engine says that it computes on. Only model buffers are believed."""

    devices: tuple[ComputeDevice, ...] = ()
    back_end: str | None = None
    """In one word: `CPU`, `CUDA`, `Vulkan`, `simulated`."""
    layers_offloaded: int | None = None
    layers: int | None = None


class ShardStatus(Record, frozen=True, kw_only=True):
    """A shard's state as its agent tells it. Times in seconds since the epoch."""

    replica: str
    rank: int = 0
    state: str | None = None
    since: float | None = None
    reason: str | None = None
    """Why it failed or stopped, in words."""
    cause: str | None = None
    """One word where it is known: `out_of_memory`, `bad_file`, `port_taken`, `exited` …"""
    pid: int | None = None
    address: str | None = None
    port: int | None = None
    progress: Progress | None = None
    compute: ComputeReport | None = None
    last_lines: tuple[str, ...] | None = None
    spec: ShardSpec | None = None
    """Sent at register and with the first status of a shard."""
    keyed: bool | None = None
    """The engine refuses requests without the replica's key."""
    adopted: bool | None = None
    served_name: str | None = None
    """The model's name that the engine itself answers to."""


class ShardUse(Record, frozen=True, kw_only=True):
    """What one engine's process group uses now. Cores and bytes."""

    replica: str
    rank: int = 0
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    requests_running: int | None = None
    requests_waiting: int | None = None
    cache_used: float | None = None
    """Share of its KV cache that requests hold, between 0 and 1."""
