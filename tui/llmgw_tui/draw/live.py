"""The list of requests in flight, and the words before some are ended."""

from collections.abc import Sequence
from shlex import quote

from llmgw.base.units import counted, show_seconds
from llmgw.model.live import CONNECTING, PREFILL, QUEUED, STREAMING, RequestShown, RequestsShown
from llmgw_tui.draw.states import MOVING, SERVING, UNKNOWN, WARN, State
from llmgw_tui.draw.table import Cell, Column, Row
from llmgw_tui.draw.text import Pieces, clean, said

COLUMNS = (
    Column("key", "KEY", 1, least=8, most=28),
    Column("model", "MODEL", 1, least=8, most=36),
    Column("state", "STATE", 1, least=11, most=14),
    Column("age", "AGE", 1, "right", least=5),
    Column("tokens", "TOKENS", 2, "right", least=6),
    Column("replica", "REPLICA", 3, least=8, most=36),
    Column("node", "NODE", 5, least=6, most=20),
    Column("client", "CLIENT", 2, least=9, most=24),
    Column("gateway", "GATEWAY", 6, least=7, most=20),
    Column("request", "REQUEST", 4, least=10, most=28),
    Column("asked", "ASKED", 7, most=24),
    Column("path", "PATH", 8, most=28),
)
SLOW = 60.0
"""Seconds after which a request that has no token yet is worth a look."""
NAMED_MOST = 6
"""Requests that are named one by one before they are ended."""

ENDING = (
    "The engine stops at once. The client gets an error with the code cancelled_by_operator; "
    "what was produced is booked."
)

_KINDS = {QUEUED: WARN, CONNECTING: MOVING, PREFILL: MOVING, STREAMING: SERVING}


def row(one: RequestShown) -> Row:
    """Return a request's row."""
    state = state_of(one)
    late = one.age >= SLOW and one.state != STREAMING
    cells: dict[str, Cell] = {
        "key": said((clean(one.key_name or one.key), "strong")),
        "model": said(clean(one.model)),
        "state": state.pieces,
        "age": said((show_seconds(one.age), "warn" if late else "text")),
        "tokens": said(("-", "absent")) if one.tokens is None else said(str(one.tokens)),
        "replica": _text(one.replica),
        "node": _text(one.node),
        "client": said((clean(one.client or "-"), "dim")),
        "gateway": said((clean(one.gateway), "dim")),
        "request": said((clean(one.id), "dim")),
        "asked": _text(one.asked),
        "path": said((clean(one.path), "dim")),
    }
    order: dict[str, float | str] = {
        key: "".join(piece.text for piece in cell)
        for key, cell in cells.items()
        if isinstance(cell, tuple)
    }
    order |= {"age": -one.age, "state": state.urgency}
    order.pop("tokens")
    if one.tokens is not None:
        order["tokens"] = one.tokens
    labels = {
        "key": one.key_name or one.key,
        "model": one.model,
        "replica": one.replica or "",
        "node": one.node or "",
        "state": one.state,
        "gateway": one.gateway,
        "stream": "yes" if one.streams else "no",
    }
    return Row(one.id, cells, order, f"{one.key} {one.asked or ''}", labels)


def state_of(one: RequestShown) -> State:
    """Return how far a request is; one that waits says at which place."""
    word = one.state if one.place is None else f"{one.state} {one.place}"
    return State(clean(word), _KINDS.get(one.state, UNKNOWN))


def caption(seen: RequestsShown | None) -> tuple[str, Pieces]:
    """Return the title above the list, and what the list does not have."""
    if seen is None:
        return "Requests in flight", ()
    notes: list[tuple[str, str]] = []
    if seen.matching > len(seen.requests):
        notes.append((f"{len(seen.requests)} of {seen.matching} shown", "warn"))
    for one in seen.silent:
        notes.append((f"{'; ' if notes else ''}{clean(one.gateway)}: {clean(one.words)}", "dim"))
    return f"Requests in flight {seen.total}", said(*notes)


def effects(chosen: Sequence[RequestShown]) -> list[str]:
    """Return what ending requests does, a line each."""
    lines = [_words(one) for one in chosen[:NAMED_MOST]]
    if len(chosen) > NAMED_MOST:
        lines.append(f"and {len(chosen) - NAMED_MOST} more")
    return [
        *lines,
        ENDING,
    ]


def command(chosen: Sequence[RequestShown]) -> str:
    """Return the command that ends the same requests."""
    return f"llmgw ctl requests cancel {' '.join(quote(one.id) for one in chosen)}"


def name(chosen: Sequence[RequestShown]) -> str:
    """Return what has to be typed: whose request it is, or how many they are."""
    if len(chosen) == 1:
        return clean(chosen[0].key_name or chosen[0].key)
    return str(len(chosen))


def done(cancelled: int, gone: int) -> tuple[str, str]:
    """Return what came of it, and its role."""
    words = f"{counted(cancelled, 'request')} cancelled"
    return (f"{words}, {gone} had ended already", "text") if gone else (words, "text")


def _words(one: RequestShown) -> str:
    tokens = "" if one.tokens is None else f", {counted(one.tokens, 'token')}"
    whose, there = clean(one.key_name or one.key), clean(one.replica or "no replica yet")
    return f"{clean(one.id)} of {whose}: {one.state} for {show_seconds(one.age)}{tokens}, {there}"


def _text(value: str | None) -> Pieces:
    return said((clean(value), "text")) if value else said(("-", "absent"))
