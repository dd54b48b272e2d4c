"""The list of models."""

from llmgw.model.catalog import (
    HubSource,
    MirrorSource,
    Model,
    PackageSource,
    PathSource,
    Profile,
    UrlSource,
)
from llmgw_tui.draw import measures
from llmgw_tui.draw.seen import ModelSeen, When
from llmgw_tui.draw.states import DOWN, MOVING, WARN
from llmgw_tui.draw.table import Cell, Column, Gauge, Row
from llmgw_tui.draw.text import Pieces, clean, said

COLUMNS = (
    Column("model", "MODEL", 1, least=12, most=44),
    Column("state", "STATE", 1, least=11, most=14),
    Column("ready", "READY", 1, "right", least=5),
    Column("engine", "ENGINE", 3, least=6, most=20),
    Column("needs", "NEEDS", 4, least=5, most=28),
    Column("profiles", "PROFILES", 6, most=30),
    Column("source", "SOURCE", 7, most=40),
    Column("changed", "CHANGED", 8, "right", most=9),
    Column("note", "WHY", 1, least=14, most=120, grow=4, want=44),
)
_NOTE_ROLES = {DOWN: "down", WARN: "warn", MOVING: "moving"}


def row(seen: ModelSeen, when: When) -> Row:
    """Return a model's row."""
    model = seen.entry.model
    state = seen.state
    engines = dict.fromkeys(clean(profile.engine) for profile in model.profiles)
    cells: dict[str, Cell] = {
        "model": said((clean(model.name), "strong")),
        "state": state.pieces,
        "ready": ready_of_wanted(seen),
        "engine": said(", ".join(engines) or "-"),
        "needs": said((needs(model.profiles[0]) if model.profiles else "-", "dim")),
        "profiles": said((clean(", ".join(p.name for p in model.profiles)) or "-", "dim")),
        "source": said((source(model), "dim")),
        "changed": said((measures.age(when.since(seen.entry.changed)), "dim")),
        "note": said((_note(seen), _NOTE_ROLES.get(state.kind, "dim"))),
    }
    order: dict[str, float | str] = {
        key: "".join(piece.text for piece in cell)
        for key, cell in cells.items()
        if not isinstance(cell, Gauge)
    }
    order |= {"state": state.urgency, "ready": seen.ready, "changed": -seen.entry.changed}
    labels = {"state": state.word, "engine": ", ".join(engines)}
    return Row(model.name, cells, order, seen.why, labels)


def ready_of_wanted(seen: ModelSeen) -> Pieces:
    """Return `1/2`: replicas that serve of those wanted."""
    return said(f"{seen.ready}/{seen.wanted}")


def _note(seen: ModelSeen) -> str:
    """Return why it does not run, which replica is out of reach, or where it runs."""
    if seen.state.kind in _NOTE_ROLES:
        return seen.why
    if away := seen.away:
        return away
    nodes = dict.fromkeys(
        clean(part.node) for replica in seen.replicas for part in replica.shards if part.node
    )
    return f"on {', '.join(nodes)}" if nodes else ""


def needs(profile: Profile) -> str:
    """Return what a replica under a profile takes, in short."""
    parts: list[str] = []
    if profile.gpus:
        classes = "/".join(profile.device_classes)
        parts.append(f"{profile.gpus}× {classes or 'GPU'}")
    else:
        parts.append(
            "cpu" if profile.cpu_cores is None else measures.counted(profile.cpu_cores, "core")
        )
    if profile.nodes > 1:
        parts.append(f"{profile.nodes} nodes")
    if profile.min_memory_gb is not None:
        parts.append(f"{profile.min_memory_gb:g} GB")
    return clean(", ".join(parts))


def source(model: Model) -> str:
    """Return where a model's weights are from, in short."""
    match model.source:
        case PackageSource() as found:
            words = f"package {found.packages[0].name}" if found.packages else "package"
        case HubSource() as found:
            words = f"hub {found.repository}"
        case UrlSource() as found:
            words = found.url
        case PathSource() as found:
            words = found.path
        case MirrorSource() as found:
            words = f"mirror {found.name}"
        case _:
            words = "none"
    return clean(words)
