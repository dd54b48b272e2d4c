"""`llmgw ctl replicas`."""

from dataclasses import dataclass
from typing import Any

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.replica import Replica


@dataclass(frozen=True, slots=True)
class Row:
    """A replica, and the moment at which ages are counted."""

    replica: Replica
    now: float


def _state(row: Row) -> str:
    state = show.text(row.replica.state)
    return f"{state} stale" if row.replica.stale else state


def _devices(row: Row) -> str:
    count = sum(len(shard.devices) for shard in row.replica.shards)
    return f"{count} gpu" if count else "cpu"


def _where(row: Row) -> str:
    shards = row.replica.shards
    if not shards or shards[0].port is None:
        return show.text(None)
    return f"{shards[0].address or '?'}:{shards[0].port}"


def _pid(row: Row) -> str:
    return ",".join(show.text(shard.pid) for shard in row.replica.shards)


COLUMNS: tuple[Column[Row], ...] = (
    Column("REPLICA", lambda r: r.replica.id),
    Column("MODEL", lambda r: show.text(r.replica.model)),
    Column("STATE", _state),
    Column("SINCE", lambda r: show.age(r.replica.since, r.now), right=True),
    Column("NODE", lambda r: show.replica_nodes(r.replica)),
    Column("DEVICES", _devices),
    Column("ENGINE", lambda r: show.text(r.replica.engine)),
    Column("ON", lambda r: show.back_end(r.replica)),
    Column("WHY", lambda r: show.replica_words(r.replica) or show.text(None)),
    Column("ADDRESS", _where, wide=True),
    Column("PID", _pid, wide=True),
    Column("PROFILE", lambda r: show.text(r.replica.profile), wide=True),
    Column("FINGERPRINT", lambda r: show.text(r.replica.fingerprint), wide=True),
)


def replicas(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List replicas: state, node, what they compute on, and why they are not ready."""
    if watch:
        from llmgw.cli.watching import follow

        follow(
            ("replicas",),
            lambda state: table(rows(state["replicas"]), COLUMNS, wide=output is Format.WIDE),
            output,
        )
        return
    records = {one["id"]: one for one in session.listing(("replicas",))["replicas"]}
    print_rows(
        rows(records),
        COLUMNS,
        output,
        name=lambda row: row.replica.id,
        data=list(records.values()),
        empty="no replicas; `llmgw ctl models` says what is wanted",
    )


def rows(records: dict[str, Any]) -> list[Row]:
    """Return the rows, by model and id."""
    now = session.now()
    found = [session.typed(record, Replica, "replicas") for record in records.values()]
    return [Row(one, now) for one in sorted(found, key=lambda r: (r.model or "", r.id))]
