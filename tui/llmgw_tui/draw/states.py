"""States as glyph, word and colour role: always all three, so that none rests on colour alone.

Orange and red are kept for what a person should act on; healthy is never bright.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from llmgw.model import events, node, shard
from llmgw.model.node import Node
from llmgw.model.replica import Replica
from llmgw.model.whereabouts import UNHEARD, whereabouts
from llmgw_tui.draw.text import Piece, clean

IDLE = "idle"
SERVING = "serving"
MOVING = "moving"
WARN = "warn"
DOWN = "down"
UNKNOWN = "unknown"
ABSENT = "absent"

GLYPHS = {
    IDLE: "○",
    SERVING: "●",
    MOVING: "◐",
    WARN: "▲",
    DOWN: "✖",
    UNKNOWN: "?",
    ABSENT: "–",
}
URGENCY = {DOWN: 0, WARN: 1, UNKNOWN: 2, MOVING: 3, SERVING: 4, IDLE: 5, ABSENT: 6}
"""Order in which states want a person's eye."""

_SHARD_KINDS = {
    shard.FETCHING: MOVING,
    shard.STARTING: MOVING,
    shard.READY: SERVING,
    shard.STOPPING: MOVING,
    shard.STOPPED: IDLE,
    shard.FAILED: DOWN,
    shard.STUCK: DOWN,
    "draining": WARN,
}
_AWAY_KINDS = {node.LOST: DOWN, node.UNREACHABLE: WARN, UNHEARD: UNKNOWN}
_ENGINE_KINDS = {node.INSTALLED: IDLE, node.INSTALLING: MOVING, node.FAILED: DOWN}
_EVENT_KINDS = {events.INFO: IDLE, events.WARNING: WARN, events.PROBLEM: DOWN}


class State(NamedTuple):
    """What something is: a word for people and a kind that says how it is drawn."""

    word: str
    kind: str

    @property
    def glyph(self) -> Piece:
        """Return the glyph alone."""
        return Piece(GLYPHS[self.kind], self.kind)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Return glyph and word."""
        return (Piece(f"{GLYPHS[self.kind]} {self.word}", self.kind),)

    @property
    def urgency(self) -> int:
        """Return where it stands in a list that puts trouble first."""
        return URGENCY[self.kind]


def node_state(seen: Node, replicas: Iterable[Replica], *, troubled: bool) -> State:
    """Return a node's state: liveness first, then wishes, what is wrong, what runs on it.

    Args:
        seen: the node.
        replicas: those with a shard on it.
        troubled: something is wrong with it (`model.trouble`).
    """
    if seen.liveness == node.LOST:
        return State("lost", DOWN)
    if seen.liveness == node.UNREACHABLE:
        return State("unreachable", DOWN)
    if seen.liveness != node.READY:
        return State(clean(seen.liveness or "not heard of"), UNKNOWN)
    if seen.wish:
        return State(clean(seen.wish), WARN)
    if troubled:
        return State("degraded", WARN)
    words = {replica.state for replica in replicas}
    if shard.READY in words:
        return State("serving", SERVING)
    if words & {shard.FETCHING, shard.STARTING}:
        return State("starting", MOVING)
    return State("ready", IDLE)


def shard_state(word: str | None) -> State:
    """Return the state of a shard or a replica."""
    if word is None:
        return State("unknown", UNKNOWN)
    return State(clean(word), _SHARD_KINDS.get(word, UNKNOWN))


def replica_state(replica: Replica, nodes: Mapping[str, Node]) -> State:
    """Return a replica's state; one that is out of reach, or serves an older profile, says so.

    Args:
        replica: it.
        nodes: all nodes by id.
    """
    away = whereabouts(replica, nodes).away
    if away is not None:
        return State(away, _AWAY_KINDS[away])
    state = shard_state(replica.state)
    if replica.stale and state.kind == SERVING:
        return State("ready, stale", WARN)
    return state


def engine_state(word: str | None) -> State:
    """Return the state of an engine on a node."""
    if word is None:
        return State("unknown", UNKNOWN)
    return State(clean(word), _ENGINE_KINDS.get(word, UNKNOWN))


def event_state(severity: str) -> State:
    """Return how an event is marked."""
    return State(clean(severity), _EVENT_KINDS.get(severity, UNKNOWN))


def model_state(wanted: int, ready: int, moving: int) -> State:
    """Return a model's state from how many replicas are wanted, ready, and on their way."""
    if wanted == 0 and not ready:
        return State("off", IDLE)
    if ready >= wanted:
        return State("serving", SERVING)
    if ready:
        return State("short", WARN)
    return State("starting", MOVING) if moving else State("not running", DOWN)
