"""What a model reserves on its nodes, and what its replicas are measured to use (PLC-5)."""

import math
from typing import Any

from llmgw.base.units import show_bytes
from llmgw.cli import session
from llmgw.cli.options import Format
from llmgw.cli.output import ABSENT, Column, note, print_rows
from llmgw.cli.show import count
from llmgw.model.catalog import Model
from llmgw.model.node import Sample
from llmgw.model.record import Record
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import ShardUse

FULL = 0.9
"""Of what is reserved, from which on a person should know."""


class Use(Record, frozen=True, kw_only=True):
    """One shard: what is reserved for it and what it uses. Bytes and cores; None: not known."""

    replica: str
    node: str
    reserved_bytes: int | None
    used_bytes: int | None
    reserved_cores: int | None
    used_cores: float | None

    def warning(self) -> str:
        """Return what is tight, in words; empty when nothing is."""
        found = []
        if self.reserved_bytes and self.used_bytes is not None:
            if self.used_bytes > self.reserved_bytes:
                found.append("uses more memory than is reserved")
            elif self.used_bytes > FULL * self.reserved_bytes:
                found.append("uses nearly all of its memory")
        if self.used_bytes is not None and not self.reserved_bytes:
            found.append("no memory is reserved")
        if (
            self.used_cores is not None
            and self.used_cores > (self.reserved_cores or math.inf) + 0.5
        ):
            found.append("uses more cores than are reserved")
        return ", ".join(found)


def _cores(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}"


COLUMNS: tuple[Column[Use], ...] = (
    Column("REPLICA", lambda u: u.replica),
    Column("NODE", lambda u: u.node),
    Column("MEMORY", lambda u: show_bytes(u.used_bytes), right=True),
    Column("RESERVED", lambda u: show_bytes(u.reserved_bytes), right=True),
    Column("CORES", lambda u: _cores(u.used_cores), right=True),
    Column("RESERVED", lambda u: _cores(u.reserved_cores), right=True),
    Column("WARNING", lambda u: u.warning() or ABSENT),
)


def show(model: Model) -> None:
    """Print a line for each profile, and a table of its replicas."""
    for profile in model.profiles:
        memory = "no memory" if profile.min_memory_gb is None else f"{profile.min_memory_gb:g} GB"
        cores = "all cores" if profile.cpu_cores is None else count(profile.cpu_cores, "core")
        note(f"{model.name} ({profile.name}): {memory} and {cores} a replica")
    topics = session.listing(("replicas", "samples"))
    rows = uses(model.name, topics)
    print_rows(
        rows, COLUMNS, Format.TABLE, name=lambda u: u.replica, empty=f"{model.name} does not run"
    )


def uses(model: str, topics: dict[str, list[dict[str, Any]]]) -> list[Use]:
    """Return what each shard of a model reserves and uses, from a listing of both topics."""
    measured: dict[tuple[str, str, int], ShardUse] = {}
    for record in topics["samples"]:
        sample = session.typed(record, Sample, "samples")
        for use in sample.heartbeat.shards or ():
            measured[sample.id, use.replica, use.rank] = use
    replicas = [session.typed(one, Replica, "replicas") for one in topics["replicas"]]
    return [
        _use(replica, shard, measured.get((shard.node, replica.id, shard.rank)))
        for replica in sorted(replicas, key=lambda one: one.id)
        if replica.model == model
        for shard in replica.shards
    ]


def _use(replica: Replica, shard: ReplicaShard, use: ShardUse | None) -> Use:
    name = replica.id if len(replica.shards) == 1 else f"{replica.id}/{shard.rank}"
    return Use(
        replica=name,
        node=shard.node,
        reserved_bytes=shard.memory_bytes,
        used_bytes=use.memory_bytes if use else None,
        reserved_cores=shard.cpu_cores,
        used_cores=use.cpu_cores if use else None,
    )
