"""`llmgw ctl nodes`."""

from dataclasses import dataclass
from typing import Any

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.node import READY, Node, Sample

TOPICS = ("nodes", "samples")


@dataclass(frozen=True, slots=True)
class Row:
    """A node with its last heartbeat, and the moment at which ages are counted."""

    node: Node
    sample: Sample | None
    now: float


def _cpu(row: Row) -> str:
    beat = row.sample.heartbeat if row.sample else None
    return show.percent(beat.cpu_percent if beat else None)


def _health(row: Row) -> str:
    """Return what is wrong with a node, its sources of facts that fail among it, each once."""
    inventory = row.node.inventory
    words = [*row.node.health, *(f"{one.subject}: {one.words}" for one in inventory.warnings or ())]
    beat = row.sample.heartbeat if row.sample and row.node.liveness == READY else None
    words += [f"probe {one.name} fails" for one in (beat.probes or () if beat else ()) if one.error]
    return "; ".join(dict.fromkeys(words)) or show.text(None)


COLUMNS: tuple[Column[Row], ...] = (
    Column("NODE", lambda r: r.node.id),
    Column("STATE", lambda r: show.node_state(r.node)),
    Column("SINCE", lambda r: show.age(r.node.since, r.now), right=True),
    Column("DEVICES", lambda r: show.device_counts(r.node.inventory.devices)),
    Column("CPU", _cpu, right=True),
    Column("MEM", lambda r: show.memory(r.node, r.sample), right=True),
    Column("ENGINES", lambda r: show.engines(r.node)),
    Column("HEALTH", _health),
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
