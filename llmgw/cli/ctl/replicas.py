"""`llmgw ctl replicas`: those that run, and those that found no place (PLC-9)."""

from dataclasses import dataclass
from typing import Any

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import ABSENT, Column, print_rows, table
from llmgw.model.draining import Draining, draining_words
from llmgw.model.replica import Replica

REFUSED = "refused"
"""The state of one that is wanted and found no place in the last plan: it has no id yet."""


class ReplicaSeen(Replica, frozen=True, kw_only=True):
    """A replica as the API lists it: with what its nodes' silence and its draining say of it."""

    away: str | None = None
    away_words: str | None = None
    draining: Draining | None = None
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A replica, and the moment at which ages are counted."""

    replica: ReplicaSeen
    now: float


def _state(row: Row) -> str:
    state = show.text(row.replica.away or row.replica.state)
    return f"{state} stale" if row.replica.stale else state


def _why(row: Row) -> str:
    """Return why it is as it is; of one that drains also how far it is."""
    one = row.replica
    told = [one.away_words or "", show.replica_words(one)]
    if one.draining is not None:
        told.append(draining_words(one.draining, row.now))
    return show.text("; ".join(filter(None, told)))


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
    Column("WHY", _why),
    Column("ADDRESS", _where, wide=True),
    Column("PID", _pid, wide=True),
    Column("PROFILE", lambda r: show.text(r.replica.profile), wide=True),
    Column("FINGERPRINT", lambda r: show.text(r.replica.fingerprint), wide=True),
)


def replicas(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List replicas: state, node, what they compute on, and why they are not ready or not there."""
    if watch:
        from llmgw.cli.watching import follow_asked

        # Whether nodes are heard is told of replicas too, so a change of either asks anew.
        wide = output is Format.WIDE
        topics = ("replicas", "nodes")
        follow_asked(topics, _listed, lambda them: table(_all(them), COLUMNS, wide=wide), output)
        return
    found = _listed()
    print_rows(
        _all(found) if output in (Format.TABLE, Format.WIDE) else rows(found),
        COLUMNS,
        output,
        name=lambda row: row.replica.id,
        data=found,
        empty="no replicas; `llmgw ctl models` says what is wanted",
    )


def _listed() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = session.connect().get("/replicas")
    return listed


def _all(records: list[dict[str, Any]]) -> list[Row]:
    """Return the rows of those that run, and of those that were refused a place."""
    plan: dict[str, Any] | None = session.connect().get("/plan")
    refused = [
        {
            "id": ABSENT,
            "model": one["model"],
            "profile": one["profile"],
            "state": REFUSED,
            "reason": one["words"],
        }
        for one in (plan or {}).get("refusals", ())
    ]
    return rows([*records, *refused])


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the rows, by model and id."""
    now = session.now()
    found = [session.typed(record, ReplicaSeen, "replicas") for record in records]
    return [Row(one, now) for one in sorted(found, key=lambda r: (r.model or "", r.id))]
