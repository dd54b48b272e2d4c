"""The list of nodes."""

from collections.abc import Sequence

from llmgw.base.units import show_bytes
from llmgw.model.node import INSTALLED, INSTALLING, READY
from llmgw_tui.draw import measures
from llmgw_tui.draw.seen import NodeSeen, When
from llmgw_tui.draw.table import Cell, Column, Gauge, Row
from llmgw_tui.draw.text import Pieces, clean, said

COLUMNS = (
    Column("node", "NODE", 1, least=8, most=36),
    Column("state", "STATE", 1, least=10, most=14),
    Column("cpu", "CPU", 1, "right", least=10, most=24, grow=1, want=14, bar=True),
    Column("ram", "RAM", 1, "right", least=10, most=24, grow=1, want=14, bar=True),
    Column("gpus", "GPUS", 2, "right", least=4),
    Column("gpu", "GPU", 4, "right", least=10, most=24, grow=1, want=14, bar=True),
    Column("replicas", "REPL", 3, "right", least=4),
    Column("load", "LOAD", 6, "right", least=5),
    Column("class", "CLASS", 6, most=28),
    Column("engines", "ENGINES", 7, most=30),
    Column("disk", "DISK FREE", 7, "right", most=10),
    Column("address", "ADDRESS", 8, most=22),
    Column("agent", "AGENT", 9, most=10),
    Column("labels", "LABELS", 10, most=36),
    Column("note", "NOTE", 1, least=14, most=120, grow=4, want=44),
)


def row(seen: NodeSeen, when: When) -> Row:
    """Return a node's row."""
    state, found = seen.state, seen.troubles(when)
    cells: dict[str, Cell] = {
        "node": said((clean(seen.node.id), "strong")),
        "state": state.pieces,
        "cpu": Gauge(seen.cpu_share, measures.percent(seen.cpu_share).rjust(4)),
        "ram": Gauge(seen.memory_share, measures.percent(seen.memory_share).rjust(4)),
        "gpus": _devices(seen),
        "gpu": Gauge(_busy(seen), measures.percent(_busy(seen)).rjust(4)),
        "replicas": said((str(len(seen.replicas)), "text" if seen.replicas else "dim")),
        "load": _known(seen.beat.load_average if seen.beat else None, 1),
        "class": said(_classes(seen)),
        "engines": said((_engines(seen), "dim")),
        "disk": said((show_bytes(_disk_free(seen)), "dim")),
        "address": said((clean(seen.node.address or "-"), "dim")),
        "agent": said((clean(seen.node.agent_version or "-"), "dim")),
        "labels": said((_labels(seen), "dim")),
        "note": _note(seen, when, found),
    }
    labels = {"state": state.word, "class": _classes(seen), **seen.node.labels}
    return Row(seen.node.id, cells, _order(seen, cells), _words(seen, found), labels)


def note(seen: NodeSeen, when: When) -> Pieces:
    """Return the one thing about a node that a person should read first."""
    return _note(seen, when, seen.troubles(when))


def _note(seen: NodeSeen, when: When, found: Sequence[str]) -> Pieces:
    node = seen.node
    if node.liveness != READY and node.last_heard is not None:
        return said((f"last heard {measures.age(when.since(node.last_heard))} ago", "down"))
    if found:
        return said((first_of(found), "warn"))
    for engine in node.inventory.engines or ():
        if engine.state == INSTALLING:
            return said((clean(engine.words or f"installing {engine.engine}"), "moving"))
    return ()


def first_of(troubles: Sequence[str]) -> str:
    """Return the first of several sentences, and how many more there are: `… (+2)`."""
    first, *others = troubles
    return f"{first} (+{len(others)})" if others else first


def _devices(seen: NodeSeen) -> Pieces:
    """Return devices held of devices there; `-` when the node cannot say."""
    devices = seen.devices
    if devices is None:
        return said(("-", "absent"))
    if not devices:
        return said(("0", "dim"))
    held = sum(device.uuid in seen.held for device in devices)
    return said(f"{held}/{len(devices)}")


def _busy(seen: NodeSeen) -> float | None:
    """Return the mean of what its devices say of how busy they are."""
    shares = [r.busy_percent / 100 for r in seen.readings.values() if r.busy_percent is not None]
    return sum(shares) / len(shares) if shares else None


def _classes(seen: NodeSeen) -> str:
    devices = seen.devices
    if devices is None:
        return "-"
    names = dict.fromkeys(clean(device.device_class or device.name or "?") for device in devices)
    return ", ".join(names) or "cpu"


def _engines(seen: NodeSeen) -> str:
    engines = seen.node.inventory.engines
    if engines is None:
        return "-"
    names = [clean(engine.engine) for engine in engines if engine.state == INSTALLED]
    return ", ".join(names) or "none"


def _disk_free(seen: NodeSeen) -> int | None:
    """Return the free bytes of its fullest local filesystem."""
    beat = seen.beat
    found = (beat.filesystems if beat else None) or seen.node.inventory.filesystems or ()
    free = [disk.free_bytes for disk in found if disk.free_bytes is not None and not disk.shared]
    return min(free, default=None)


def _labels(seen: NodeSeen) -> str:
    return clean(" ".join(f"{name}={value}" for name, value in sorted(seen.node.labels.items())))


def _known(value: float | None, digits: int = 0) -> Pieces:
    role = "absent" if value is None else "text"
    return said((measures.number(value, digits=digits), role))


def _order(seen: NodeSeen, cells: dict[str, Cell]) -> dict[str, float | str]:
    numbers: dict[str, float | None] = {
        "state": seen.state.urgency,
        "cpu": seen.cpu_share,
        "ram": seen.memory_share,
        "gpus": None if seen.devices is None else len(seen.devices),
        "gpu": _busy(seen),
        "replicas": len(seen.replicas),
        "load": seen.beat.load_average if seen.beat else None,
        "disk": _disk_free(seen),
    }
    order: dict[str, float | str] = {key: v for key, v in numbers.items() if v is not None}
    for key, cell in cells.items():
        if key not in numbers and not isinstance(cell, Gauge):
            order[key] = "".join(piece.text for piece in cell)
    return order


def _words(seen: NodeSeen, found: Sequence[str]) -> str:
    """Return what a filter finds a node by beside its cells: its models and what is wrong."""
    models = (replica.model or "" for replica in seen.replicas)
    return " ".join((*models, *found))
