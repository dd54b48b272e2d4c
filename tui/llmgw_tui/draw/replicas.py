"""The list of replicas."""

from collections.abc import Mapping

from llmgw.base.units import show_bytes
from llmgw.model.node import Node
from llmgw.model.replica import Replica
from llmgw.model.shard import ShardUse
from llmgw_tui.draw import measures
from llmgw_tui.draw.seen import When, back_end, device_names, replica_words
from llmgw_tui.draw.states import DOWN, MOVING, WARN, replica_state
from llmgw_tui.draw.table import Cell, Column, Gauge, Row
from llmgw_tui.draw.text import Pieces, clean, said

COLUMNS = (
    Column("replica", "REPLICA", 1, least=12, most=40),
    Column("state", "STATE", 1, least=10, most=14),
    Column("model", "MODEL", 5, least=8, most=36),
    Column("node", "NODE", 2, least=6, most=28),
    Column("devices", "DEVICES", 3, least=4, most=26),
    Column("on", "ON", 2, least=4, most=14),
    Column("run", "RUN", 4, "right", least=3),
    Column("wait", "WAIT", 4, "right", least=4),
    Column("age", "AGE", 3, "right", least=4),
    Column("port", "PORT", 5, "right", least=5),
    Column("cores", "CORES", 6, "right", least=5),
    Column("memory", "MEM", 6, "right", least=6),
    Column("engine", "ENGINE", 7, most=12),
    Column("profile", "PROFILE", 8, most=16),
    Column("note", "NOTE", 1, least=14, most=120, grow=4, want=44),
)
_NOTE_ROLES = {DOWN: "down", WARN: "warn", MOVING: "moving"}

Uses = Mapping[tuple[str, str, int], ShardUse]
"""What shards use, by node, replica and rank."""


def row(replica: Replica, nodes: Mapping[str, Node], uses: Uses, when: When) -> Row:
    """Return a replica's row."""
    state, words = replica_state(replica, nodes), replica_words(replica, nodes)
    found = [uses.get((part.node, replica.id, part.rank)) for part in replica.shards]
    used = [use for use in found if use is not None]
    cells: dict[str, Cell] = {
        "replica": said((clean(replica.id), "strong")),
        "state": state.pieces,
        "model": said(clean(replica.model or "-")),
        "node": said(where(replica)),
        "devices": devices(replica, nodes),
        "on": computes_on(replica),
        "run": _sum([use.requests_running for use in used]),
        "wait": _sum([use.requests_waiting for use in used]),
        "age": said((measures.age(when.since(replica.since)), "dim")),
        "port": said((_port(replica), "dim")),
        "cores": _cores(used),
        "memory": said((show_bytes(_memory(used)), "dim")),
        "engine": said((clean(replica.engine or "-"), "dim")),
        "profile": said((clean(replica.profile or "-"), "dim")),
        "note": said((words, _NOTE_ROLES.get(state.kind, "dim"))),
    }
    labels = {
        "state": state.word,
        "model": replica.model or "",
        "node": where(replica),
        "engine": replica.engine or "",
        "profile": replica.profile or "",
        "on": back_end(replica) or "",
    }
    order = _order(replica, cells, used) | {"state": state.urgency}
    return Row(replica.id, cells, order, words, labels)


def where(replica: Replica) -> str:
    """Return the node that serves a replica, and how many more take part."""
    names = dict.fromkeys(part.node for part in sorted(replica.shards, key=lambda p: p.rank))
    if not names:
        return "-"
    first = clean(next(iter(names)))
    return first if len(names) == 1 else f"{first} +{len(names) - 1}"


def devices(replica: Replica, nodes: Mapping[str, Node]) -> Pieces:
    """Return the devices that a replica was given, by name; `cpu` when it was given none."""
    held = [(part.node, uuid) for part in replica.shards for uuid in part.devices]
    if not held:
        return said(("cpu" if replica.shards else "-", "dim"))
    if len(dict.fromkeys(node for node, _ in held)) > 1:
        return said(f"{len(held)} GPUs")
    names = device_names(nodes.get(held[0][0]))
    return said(ranges([names.get(uuid, clean(uuid)[:12]) for _, uuid in held]))


def ranges(names: list[str]) -> str:
    """Return device names in short: `gpu0-3,5`; names of any other form are listed."""
    numbers = [name[3:] for name in names if name.startswith("gpu")]
    if len(numbers) != len(names) or not all(number.isdigit() for number in numbers):
        return ",".join(names)
    runs: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "gpu" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def computes_on(replica: Replica) -> Pieces:
    """Return the back end that the engine reported; `CPU` with devices held is a warning."""
    word = back_end(replica)
    if word is None:
        return said(("-", "absent"))
    held = any(part.devices for part in replica.shards)
    return said((word, "warn" if held and word == "CPU" else "text"))


def _port(replica: Replica) -> str:
    return next((str(part.port) for part in replica.shards if part.port is not None), "-")


def _sum(values: list[int | None]) -> Pieces:
    known = [value for value in values if value is not None]
    return said(str(sum(known))) if known else said(("-", "absent"))


def _memory(used: list[ShardUse]) -> int | None:
    known = [use.memory_bytes for use in used if use.memory_bytes is not None]
    return sum(known) if known else None


def _cores(used: list[ShardUse]) -> Pieces:
    known = [use.cpu_cores for use in used if use.cpu_cores is not None]
    return said((measures.number(sum(known) if known else None, digits=1), "dim"))


def _order(
    replica: Replica, cells: Mapping[str, Cell], used: list[ShardUse]
) -> dict[str, float | str]:
    order: dict[str, float | str] = {
        key: "".join(piece.text for piece in cell)
        for key, cell in cells.items()
        if not isinstance(cell, Gauge)
    }
    numbers: dict[str, float | None] = {
        "age": None if replica.since is None else -replica.since,
        "run": _number(cells["run"]),
        "wait": _number(cells["wait"]),
        "memory": _memory(used),
        "cores": _number(cells["cores"]),
    }
    for key, value in numbers.items():
        order.pop(key, None)
        if value is not None:
            order[key] = value
    return order


def _number(cell: Cell) -> float | None:
    text = "" if isinstance(cell, Gauge) else "".join(piece.text for piece in cell)
    return None if text in {"", "-"} else float(text)
