"""The overview: is it serving, what is full, what is sick, why is anything not running."""

from collections.abc import Iterator

from llmgw.model.condition import names_of
from llmgw.model.events import Event
from llmgw.model.trouble import reasons
from llmgw.model.whereabouts import serves, whereabouts
from llmgw_tui.draw import capacity, measures, nodes
from llmgw_tui.draw.budget import Item, Wanted, column
from llmgw_tui.draw.models import ready_of_wanted
from llmgw_tui.draw.page import (
    BLANK,
    PageLine,
    beside,
    gap_for,
    halves,
    linked,
)
from llmgw_tui.draw.places import MODEL, NODE, REPLICA, Place
from llmgw_tui.draw.seen import FleetSeen, ModelSeen, When, replica_words
from llmgw_tui.draw.states import (
    DOWN,
    IDLE,
    MOVING,
    SERVING,
    UNKNOWN,
    WARN,
    State,
    event_state,
    replica_state,
)
from llmgw_tui.draw.text import Piece, Pieces, clean, fit, pieces_width, said, wrap

TWO_COLUMNS = 116
NARROW = 60
MOST_LINES = 3
"""Lines that one reason may take."""
_ROLES = {DOWN: "down", WARN: "warn", MOVING: "moving"}


def page(fleet: FleetSeen, when: When, width: int, height: int) -> list[PageLine]:
    """Return the overview, cut to what fits: a section says how many more there are."""
    head = [PageLine(fit(headline(fleet), width)), *[BLANK] * gap_for(height)]
    if width < TWO_COLUMNS:
        wanted = (_models(fleet, width), _sick(fleet, when, width), _full(fleet, width))
        room = height - len(head)
        return [*head, *column((*wanted, _events(fleet, when)), width, room)]
    left, right = halves(width)
    room = height - len(head)
    first = column((_models(fleet, left), _events(fleet, when)), left, room)
    second = column(
        (_full(fleet, right), _sick(fleet, when, right), _map(fleet, right)), right, room
    )
    return [*head, *beside(first, second, (left, right))]


def headline(fleet: FleetSeen) -> Pieces:
    """Return in one line whether the fleet serves."""
    state = verdict(fleet)
    wanted = [model for model in fleet.models if model.state.kind != IDLE]
    serving = sum(model.ready > 0 for model in wanted)
    running, waiting = in_flight(fleet)
    known = fleet.by_id
    ready = sum(serves(replica, known) for replica in fleet.replicas)
    words = [f"{serving}/{len(wanted)} models answer"] if wanted else ["no model is wanted"]
    words.append(f"{measures.counted(ready, 'replica')} ready")
    if running is not None:
        words.append(f"{running} running, {measures.number(waiting)} waiting")
    return said(*state.pieces, "  ", " · ".join(words))


def verdict(fleet: FleetSeen) -> State:
    """Return the fleet's state in one word."""
    if not fleet.nodes:
        return State("no nodes yet", IDLE)
    wanted = [model for model in fleet.models if model.state.kind != IDLE]
    if not wanted:
        return State("nothing to serve", IDLE)
    kinds = [model.state.kind for model in wanted]
    if all(kind == SERVING for kind in kinds):
        return State("serving", SERVING)
    if any(model.ready for model in wanted):
        return State("partly serving", WARN)
    return State("starting", MOVING) if MOVING in kinds else State("not serving", DOWN)


def in_flight(fleet: FleetSeen) -> tuple[int | None, int | None]:
    """Return the requests running and waiting in all engines; None where no engine says."""
    uses = [use for seen in fleet.nodes for use in seen.uses.values()]
    running = [use.requests_running for use in uses if use.requests_running is not None]
    waiting = [use.requests_waiting for use in uses if use.requests_waiting is not None]
    return sum(running) if running else None, sum(waiting) if waiting else None


def _models(fleet: FleetSeen, width: int) -> Wanted:
    ordered = sorted(fleet.models, key=lambda one: (one.state.urgency, one.entry.model.name))
    items = tuple(_model(model, width) for model in ordered)
    return Wanted("Models", items or _nothing("none: `llmgw ctl model add FILE` adds one"), 3)


def _nothing(words: str) -> tuple[Item, ...]:
    return (Item(PageLine(said((words, "dim")))),)


def _model(model: ModelSeen, width: int) -> Item:
    state = model.state
    name = model.entry.model.name
    pieces = [*fit(state.pieces, 14), Piece(" ")]
    if width >= NARROW:
        pieces += (*fit(ready_of_wanted(model), 5), Piece(" "))
    pieces += fit(said((clean(name), "strong")), min(30, max(12, width // 4)))
    if state.kind in _ROLES:
        words, role = model.why or "no reason is known", _ROLES[state.kind]
        return _told(pieces, words, role, Place(MODEL, name), width)
    where = dict.fromkeys(clean(p.node) for r in model.replicas for p in r.shards)
    return Item(linked((*pieces, *said("  ", (", ".join(where), "dim"))), Place(MODEL, name)))


def _told(pieces: list[Piece], words: str, role: str, target: Place, width: int) -> Item:
    """Return a line that leads somewhere, with its words in as many lines as they need."""
    start = pieces_width(pieces) + 2
    short = linked((*pieces, *said("  ", (words, role))), target)
    lines = wrap(words, max(8, width - start), MOST_LINES)
    if len(lines) < 2:
        return Item(short)
    first = linked((*pieces, *said("  ", (lines[0], role))), target)
    return Item(short, (first, *(PageLine(said(" " * start, (line, role))) for line in lines[1:])))


def _full(fleet: FleetSeen, width: int) -> Wanted:
    items = tuple(Item(capacity.line(one, width)) for one in capacity.classes(fleet.nodes))
    return Wanted("Capacity", items or _nothing("no node has reported what it has"), 3)


def _sick(fleet: FleetSeen, when: When, width: int) -> Wanted:
    found = [*_sick_nodes(fleet, when, width), *_sick_replicas(fleet, width)]
    items = tuple(item for _, item in sorted(found, key=lambda one: one[0]))
    return Wanted("Sick", items or _nothing("nothing that is known"), 3)


def _sick_nodes(fleet: FleetSeen, when: When, width: int) -> Iterator[tuple[int, Item]]:
    for seen in fleet.nodes:
        state, target = seen.state, Place(NODE, seen.node.id)
        sick = reasons(seen.devices or ())
        if state.kind in {DOWN, UNKNOWN}:
            (words, role), *_ = (*nodes.note(seen, when), Piece("", "dim"))
            yield state.urgency, _trouble(state, seen.node.id, words, role, target, width)
        # What its devices say is told with them.
        told = tuple(map(clean, sick))
        if others := [one for one in seen.troubles(when) if not told or not one.endswith(told)]:
            state = State("degraded", WARN)
            words = nodes.first_of(others)
            yield state.urgency, _trouble(state, seen.node.id, words, WARN, target, width)
        for reason, devices in sick.items():
            name = f"{seen.node.id}/{names_of(devices)}"
            state = State("unhealthy", DOWN)
            yield 0, _trouble(state, name, clean(reason), "warn", target, width)


def _sick_replicas(fleet: FleetSeen, width: int) -> Iterator[tuple[int, Item]]:
    known = fleet.by_id
    for replica in fleet.replicas:
        if whereabouts(replica, known).away:
            continue  # that its node is not heard is told of the node
        state = replica_state(replica, known)
        if state.kind in {DOWN, WARN}:
            words, role = replica_words(replica, known), _ROLES[state.kind]
            target = Place(REPLICA, replica.id)
            yield state.urgency, _trouble(state, replica.id, words, role, target, width)


def _trouble(state: State, name: str, words: str, role: str, target: Place, width: int) -> Item:
    room = min(22, width // 3)
    pieces = [*fit(state.pieces, 14), Piece(" "), *fit(said((clean(name), "strong")), room)]
    return _told(pieces, words, role, target, width)


def _map(fleet: FleetSeen, width: int) -> Wanted:
    """Return the whole fleet at one glance: a glyph a node, in the order of their names."""
    cells = [seen.state.glyph for seen in fleet.nodes]
    per_line = max(1, width // 2)
    rows = (cells[start : start + per_line] for start in range(0, len(cells), per_line))
    lines = tuple(
        Item(PageLine(tuple(piece for cell in row for piece in (cell, Piece(" "))))) for row in rows
    )
    return Wanted("Nodes", lines, 1)


def _events(fleet: FleetSeen, when: When) -> Wanted:
    items = tuple(Item(_event(event, when)) for event in reversed(fleet.events))
    return Wanted("Events", items or _nothing("none yet"), 2)


def _event(event: Event, when: When) -> PageLine:
    """Return an event; its subject stands out, also where its words name it themselves."""
    clock = when.clock(event.at, "%H:%M")
    start = said((clock, "dim"), " ", event_state(event.severity).glyph, " ")
    subject, words = clean(event.subject), clean(event.words)
    before, named, after = words.partition(subject)
    if subject and named:
        return PageLine((*start, *said(before, (subject, "strong"), after)))
    return PageLine((*start, *said((subject, "strong"), " ", words)))
