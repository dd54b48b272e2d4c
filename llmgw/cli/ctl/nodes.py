"""`llmgw ctl nodes`."""

from dataclasses import dataclass
from typing import Any

from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.node import READY, Node, Sample
from llmgw.model.trouble import short, troubles

TOPICS = ("nodes", "samples")


@dataclass(frozen=True, slots=True)
class Row:
    """A node with its last heartbeat, and the moment at which ages are counted."""

    node: Node
    sample: Sample | None
    now: float


HEALTH_WIDTH = 72
"""Characters of the one reason that a table shows."""


def _now(row: Row) -> Sample | None:
    """Return the last heartbeat of a node that is heard: an old one says nothing about now."""
    return row.sample if row.node.liveness == READY else None


def _cpu(row: Row) -> str:
    sample = _now(row)
    beat = sample.heartbeat if sample else None
    return show.percent(beat.cpu_percent if beat else None)


def _troubles(row: Row) -> tuple[str, ...]:
    beat = row.sample.heartbeat if row.sample else None
    return troubles(row.node, beat, now=row.now, ages=show_seconds)


def _health(row: Row) -> str:
    """Return the first thing that is wrong with a node, and how many more there are."""
    return show.text(short(_troubles(row), HEALTH_WIDTH))


def _whole_health(row: Row) -> str:
    return show.text("; ".join(_troubles(row)))


COLUMNS: tuple[Column[Row], ...] = (
    Column("NODE", lambda r: r.node.id),
    Column("STATE", lambda r: show.node_state(r.node)),
    Column("SINCE", lambda r: show.age(r.node.since, r.now), right=True),
    Column("DEVICES", lambda r: show.device_counts(r.node.inventory.devices)),
    Column("CPU", _cpu, right=True),
    Column("MEM", lambda r: show.memory(r.node, _now(r)), right=True),
    Column("ENGINES", lambda r: show.engines(r.node)),
    Column("HEALTH", _health, full=_whole_health),
    Column("ADDRESS", lambda r: show.text(r.node.address), wide=True),
    Column("VERSION", lambda r: show.text(r.node.agent_version), wide=True),
    Column(
        "LABELS", lambda r: ",".join(f"{k}={v}" for k, v in r.node.labels.items()) or "-", wide=True
    ),
)


def nodes(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List nodes: state, devices, memory, engines."""
    if watch:
        from llmgw.cli.watching import follow

        wide = output is Format.WIDE
        follow(TOPICS, lambda state: table(rows(state), COLUMNS, wide=wide), output)
        return
    topics = session.listing(TOPICS)
    state = {topic: {one["id"]: one for one in records} for topic, records in topics.items()}
    found = rows(state)
    print_rows(
        found,
        COLUMNS,
        output,
        name=lambda row: row.node.id,
        data=[{**state["nodes"][r.node.id], "sample": r.sample} for r in found],
        empty="no nodes; `llmgw ctl node token NODE` lets one join",
    )


def rows(state: dict[str, dict[str, Any]]) -> list[Row]:
    """Return the rows of a listing, by node."""
    now = session.now()
    samples = state.get("samples", {})
    return [
        Row(
            node=session.typed(record, Node, "nodes"),
            sample=session.typed(samples[id_], Sample, "samples") if id_ in samples else None,
            now=now,
        )
        for id_, record in sorted(state.get("nodes", {}).items())
    ]
