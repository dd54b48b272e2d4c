"""What a decision is made from and what it is: frozen, complete, explained."""

import msgspec

from llmgw.model.catalog import CatalogEntry
from llmgw.model.device import DeviceSample
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


class NodeRoom(Record, frozen=True, kw_only=True):
    """A node and what is held on it."""

    node: Node
    bookings: tuple[Booking, ...] = ()
    memory_available_bytes: int | None = None
    """From the last heartbeat; None when not known."""
    readings: tuple[DeviceSample, ...] | None = None
    """Of the last heartbeat: who else uses its devices; None when not known."""


class StartFailure(Record, frozen=True, kw_only=True):
    """A start that failed: counted per model and node, for back-off."""

    model: str
    node: str
    count: int
    last: float
    """Monotonic seconds."""
    words: str


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


class Desired(Record, frozen=True, kw_only=True):
    """What the cluster is told."""

    models: tuple[CatalogEntry, ...]
    settings: Settings


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


Step = StartReplica | StopReplica


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
    steps: tuple[StartReplica | StopReplica, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    sentence: str
    """What is done and why, or why nothing is."""
