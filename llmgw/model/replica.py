"""One running copy of a model under one profile, as the fleet rebuilds it from reports."""

from llmgw.model.record import Record
from llmgw.model.shard import FAILED, STOPPED, STOPPING, ComputeReport, Progress

DRAINING = "draining"
LEAVING = frozenset({DRAINING, STOPPING})
"""States of a replica that is being stopped: it no longer counts and still holds what it has."""
OVER = frozenset({FAILED, STOPPED})
"""States of a replica of which nothing runs any more."""


class ReplicaShard(Record, frozen=True, kw_only=True):
    """One shard of a replica and where it is."""

    rank: int
    node: str
    state: str | None = None
    devices: tuple[str, ...] = ()
    pid: int | None = None
    address: str | None = None
    port: int | None = None
    served_name: str | None = None
    keyed: bool | None = None
    adopted: bool | None = None
    reason: str | None = None
    cause: str | None = None
    progress: Progress | None = None
    compute: ComputeReport | None = None
    memory_bytes: int | None = None
    cpu_cores: int | None = None
    last_lines: tuple[str, ...] | None = None
    """The end of its engine's output, where that ended by itself or hangs."""


class Replica(Record, frozen=True, kw_only=True):
    """Topic `replicas`. Times in seconds since the epoch."""

    id: str
    model: str | None = None
    profile: str | None = None
    engine: str | None = None
    fingerprint: str | None = None
    state: str | None = None
    """The least advanced of its shards' states; `draining` when no new requests are sent to it."""
    stale: bool | None = None
    """Its fingerprint differs from the catalog's; None: no fingerprint to compare."""
    since: float | None = None
    reason: str | None = None
    shards: tuple[ReplicaShard, ...] = ()
