"""What a decision is made from and what it is: frozen, complete, explained."""

import msgspec

from llmgw.model.catalog import CatalogEntry
from llmgw.model.device import DeviceHealth, DeviceSample
from llmgw.model.node import Node
from llmgw.model.record import Record
from llmgw.model.replica import Replica
from llmgw.model.settings import Settings
from llmgw.model.shard import ShardSpec

FITS = "fits"
NOT_NOW = "not_now"
"""Waiting helps: something is being installed, drained or started."""
NOT_UNLESS_EVICTED = "not_unless_evicted"
"""Something else would have to give way."""
NEVER = "never"
"""Only a change of the machine or of the catalog helps."""


class Booking(Record, frozen=True, kw_only=True):
    """What a live shard holds on a node, whoever started it, until its process is gone."""

    replica: str
    rank: int
    model: str | None = None
    devices: tuple[str, ...] = ()
    memory_bytes: int | None = None
    cpu_cores: int | None = None
    weights: str | None = None
    """What it fetches before it is ready, where the node does not hold it: see `cache_name`."""
    disk_bytes: int | None = None
    """What that takes of the node's disk."""
    asks_bytes: int | None = None
    """Host memory that has to be free until it starts, and that it does not hold then."""


class Cable(Record, frozen=True, kw_only=True):
    """What the map of a fabric says of one port of a node."""

    adapter: str
    number: int
    leaf: str | None = None
    """The switch that it is plugged into."""
    trained_short: bool | None = None
    """It runs below the rate of its kind; None: not known."""


class NodeRoom(Record, frozen=True, kw_only=True):
    """A node and what is held on it."""

    node: Node
    bookings: tuple[Booking, ...] = ()
    memory_available_bytes: int | None = None
    """From the last heartbeat; None when not known."""
    readings: tuple[DeviceSample, ...] | None = None
    """Of the last heartbeat: who else uses its devices; None when not known."""
    health: tuple[DeviceHealth, ...] | None = None
    """What its devices last said of their wear and faults; None when not known."""
    cables: tuple[Cable, ...] = ()
    """Of its ports, where a map of their fabric is known."""
    lent: str | None = None
    """Whom the node is lent to, `Slurm`; None: nobody."""
    lost_for: float | None = None
    """Seconds since it counts as lost; None when it does not."""


class StartFailure(Record, frozen=True, kw_only=True):
    """Starts that failed and replicas that ended early, per model and node: for back-off."""

    model: str
    node: str
    count: int
    last: float
    """Monotonic seconds."""
    words: str
    served: bool = False
    """The last one was the end of a replica that had served."""
    served_first: bool = False
    """The first one was; it was restarted at once, so that the waits begin with the second."""


class Drain(Record, frozen=True, kw_only=True):
    """A replica that is given up: it gets no new requests, and is stopped when it is drained."""

    replica: str
    words: str
    lasts: float
    """Seconds since it left the routes."""
    settled: bool = True
    """Every gateway that is connected has left it, and told since what it has in flight there."""
    told: bool = False
    """Its nodes were told to stop it, and have the time to say that they did."""
    told_before: bool = False
    """They were told at least once, however long ago."""
    told_shards: tuple[tuple[str, int], ...] = ()
    """(node, rank) of those that `told` is said of."""


class Load(Record, frozen=True, kw_only=True):
    """What a replica is doing now, as far as anybody says; None: not known."""

    replica: str
    in_flight: int | None = None
    """Requests that gateways have there; None where a gateway can't be asked."""
    running: int | None = None
    """Requests that its engine runs, by its own account."""
    waiting: int | None = None
    """Requests that wait in its engine."""
    cache_used: float | None = None
    """Share of its engine's KV cache that requests hold."""
    age: float | None = None
    """Seconds since the engine said so."""


class Demand(Record, frozen=True, kw_only=True):
    """What is asked of a model, over all its replicas."""

    model: str
    queued: int = 0
    """Requests that wait at gateways because nothing serves it."""
    tokens_per_second: float | None = None
    """What its replicas made lately; None: no gateway has said it twice."""
    idle_for: float | None = None
    """Seconds since anything was asked of it; None: nothing since this control plane began."""


class Want(Record, frozen=True, kw_only=True):
    """How many replicas of a profile are wanted now, where that is not what the catalog says."""

    model: str
    profile: str
    replicas: int
    words: str
    """Why, with nothing that moves by itself; empty: because the catalog says so."""
    refused: str = ""
    """Why it can't be placed, where a request waits and another profile is tried instead."""


class MassLoss(Record, frozen=True, kw_only=True):
    """Nodes that fell silent together: taken for a fault on this side, not on theirs (LINK-6a)."""

    nodes: tuple[str, ...]
    words: str
    blind: bool = False
    """What some of them run is not known: they were not heard since this control plane began."""


class Observed(Record, frozen=True, kw_only=True):
    """The fleet at one moment.

    `settled`: every known node reported, or the settling period is over.
    """

    nodes: tuple[NodeRoom, ...]
    replicas: tuple[Replica, ...]
    """Rebuilt from reports, and those whose start command was sent and is not reported yet."""
    failures: tuple[StartFailure, ...] = ()
    settled: bool = True
    waiting_for: tuple[str, ...] = ()
    """Known nodes that have not reported yet."""
    drains: tuple[Drain, ...] = ()
    successors: tuple[tuple[str, str], ...] = ()
    """(model, profile) of each outdated replica that goes, or just went, for its successor."""
    loads: tuple[Load, ...] = ()
    demands: tuple[Demand, ...] = ()
    mass_loss: MassLoss | None = None
    """While it lasts nothing takes the place of what those nodes run."""


class Desired(Record, frozen=True, kw_only=True):
    """What the cluster is told, and what scaling made of it."""

    models: tuple[CatalogEntry, ...]
    settings: Settings
    wants: tuple[Want, ...] = ()
    """Of profiles that scale; of any other as many replicas as it says are wanted."""


class Verdict(Record, frozen=True, kw_only=True):
    """What one rule says of one node; `words` say what was short, of how much."""

    kind: str
    rule: str
    words: str = ""
    reasons: tuple[str, ...] = ()
    """Each reason in full, where `words` may count the last of them."""


class Candidate(Record, frozen=True, kw_only=True):
    """A node, its verdict, and its scores 0-100 by rule when it fits."""

    node: str
    verdict: Verdict
    scores: dict[str, int] = msgspec.field(default_factory=dict)
    devices: tuple[str, ...] = ()
    """Those that would be taken, when it fits."""


class Assignment(Record, frozen=True, kw_only=True):
    """One shard and the node that runs it."""

    node: str
    spec: ShardSpec
    device_memory_bytes: int | None = None
    """What it is expected to need on each of its devices; None: not known."""


class StartReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="start"):
    """Start a new replica: all its shards."""

    replica: str
    model: str
    profile: str
    shards: tuple[Assignment, ...]
    words: str
    """Why, and why there."""


class StopReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="stop"):
    """Stop a replica's shards."""

    replica: str
    shards: tuple[tuple[str, int], ...]
    """(node, rank) of each."""
    words: str


class DrainReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="drain"):
    """Take a replica out of the routes; a later plan stops it, when what it has begun is done."""

    replica: str
    words: str
    for_successor: bool = False
    """It is outdated, and one that is as wanted is to have its place before any equal."""


class EvictReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="evict"):
    """Drain a replica that has nothing to do, so that another model has its place."""

    replica: str
    gives_way_to: tuple[str, str]
    """Model and profile that can't be placed otherwise."""
    words: str


class PreemptReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="preempt"):
    """Drain a replica that serves, of a lower priority, so that another model has its place."""

    replica: str
    gives_way_to: tuple[str, str]
    words: str


class KeepReplica(Record, frozen=True, kw_only=True, tag_field="kind", tag="keep"):
    """Let a replica go on that was given up and not told to stop: it returns to the routes."""

    replica: str
    words: str


Step = StartReplica | StopReplica | DrainReplica | EvictReplica | PreemptReplica | KeepReplica


class Refusal(Record, frozen=True, kw_only=True):
    """A replica that is wanted and could not be placed: every candidate and its reason."""

    model: str
    profile: str
    candidates: tuple[Candidate, ...]
    words: str
    """One line: what was short, of how much, on which node."""


class Plan(Record, frozen=True, kw_only=True):
    """What one pass decided. Numbered, with its parent; no choice is left to who executes it."""

    number: int
    parent: int | None
    steps: tuple[
        StartReplica | StopReplica | DrainReplica | EvictReplica | PreemptReplica | KeepReplica,
        ...,
    ] = ()
    refusals: tuple[Refusal, ...] = ()
    sentence: str
    """What is done and why, or why nothing is."""
