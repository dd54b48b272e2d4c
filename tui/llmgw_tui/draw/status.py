"""The state of everything in a few cells: for the title bar and the side bar."""

from collections import Counter
from collections.abc import Iterable, Mapping

from llmgw.base.units import show_seconds
from llmgw_tui.draw import measures
from llmgw_tui.draw.frame import Entry
from llmgw_tui.draw.places import KEYS, LOGS, MODELS, NODES, OVERVIEW, REPLICAS, TRAFFIC
from llmgw_tui.draw.seen import FleetSeen
from llmgw_tui.draw.states import (
    DOWN,
    GLYPHS,
    IDLE,
    MOVING,
    SERVING,
    UNKNOWN,
    WARN,
    State,
    replica_state,
)
from llmgw_tui.draw.text import Pieces, said

_LINKS = {
    "live": State("live", SERVING),
    "connecting": State("connecting", MOVING),
    "reconnecting": State("reconnecting", MOVING),
    "stale": State("stale", UNKNOWN),
    "refused": State("refused", DOWN),
    "ended": State("ended", DOWN),
}
_SCREENS = (
    ("1", OVERVIEW, "Overview"),
    ("2", NODES, "Nodes"),
    ("3", REPLICAS, "Replicas"),
    ("4", MODELS, "Models"),
    ("5", LOGS, "Logs"),
    ("6", TRAFFIC, "Traffic"),
    ("7", KEYS, "Keys"),
)
TITLES = {name: title for _, name, title in _SCREENS}


def link(state: str, heard: float | None, now: float) -> Pieces:
    """Return how fresh what is on the screen is: its state, and its age when it is not live."""
    known = _LINKS.get(state, State(state, UNKNOWN))
    if state == "reconnecting" and heard is None:
        known = _LINKS["connecting"]
    if state == "live" or heard is None:
        return known.pieces
    seconds = int(max(0.0, now - heard))
    age = f"{seconds}s" if seconds < 60 else show_seconds(seconds)
    return said(*known.pieces, (f" {age}", known.kind))


def health(fleet: FleetSeen) -> Pieces:
    """Return the nodes counted by what they are."""
    if not fleet.nodes:
        return ()
    kinds = Counter(seen.state.kind for seen in fleet.nodes)
    parts: list[tuple[str, str]] = [(measures.counted(len(fleet.nodes), "node"), "dim")]
    order = (SERVING, IDLE, MOVING, WARN, DOWN, UNKNOWN)
    parts += [(f" {GLYPHS[kind]}{kinds[kind]}", kind) for kind in order if kinds[kind]]
    return said(*parts)


def counts(fleet: FleetSeen) -> dict[str, tuple[int, str]]:
    """Return how many things each screen lists, and the kind of the worst trouble among them."""
    nodes = fleet.by_id
    found = {
        NODES: [seen.state for seen in fleet.nodes],
        REPLICAS: [replica_state(replica, nodes) for replica in fleet.replicas],
        MODELS: [model.state for model in fleet.models],
    }
    return {name: (len(states), _worst(states)) for name, states in found.items()}


def entries(counted: Mapping[str, tuple[int, str]], here: str) -> tuple[Entry, ...]:
    """Return the side bar's entries; a screen with trouble on it shows the trouble's colour."""
    made: list[Entry] = []
    for key, name, title in _SCREENS:
        count, worst = counted.get(name, (None, ""))
        note = "" if count is None else str(count)
        made.append(Entry(key, title, note, worst, name == here))
    return tuple(made)


def _worst(states: Iterable[State]) -> str:
    kinds = {state.kind for state in states}
    return next((kind for kind in (DOWN, WARN) if kind in kinds), "")
