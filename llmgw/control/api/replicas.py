"""Replicas: what runs, rebuilt from what nodes report, and how it is with those nodes silent."""

from collections.abc import Iterator

import msgspec

from llmgw.base.errors import NotFound
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import ReplicaShown
from llmgw.control.plane import Plane
from llmgw.model.draining import Draining, draining_words
from llmgw.model.keys import READ
from llmgw.model.replica import DRAINING
from llmgw.model.whereabouts import whereabouts
from llmgw.plan.drain import in_flight


async def replicas(call: Call) -> tuple[ReplicaShown, ...]:
    """Return all replicas, by id."""
    return seen(call.plane)


async def replica(call: Call) -> ReplicaShown:
    """Return one replica."""
    wanted = call.path["id"]
    found = next((one for one in seen(call.plane) if one.id == wanted), None)
    if found is None:
        raise NotFound(f"no replica {wanted!r}", hint="list them: llmgw ctl replicas")
    return found


def seen(plane: Plane) -> tuple[ReplicaShown, ...]:
    """Return all replicas as people are shown them, by id."""
    nodes = {node.id: node for node in plane.fleet.nodes()}
    drains = _drains(plane)
    flights = {load.replica: load.in_flight for load in plane.fleet.loads()}
    found = []
    for one in plane.fleet.replicas():
        where = whereabouts(one, nodes)
        shown = ReplicaShown(
            **msgspec.structs.asdict(one),
            away=where.away,
            away_words=where.words or None,
            draining=drains.get(one.id) if one.state == DRAINING else None,
            in_flight=flights.get(one.id),
        )
        found.append(shown)
    return tuple(found)


def notes(plane: Plane) -> dict[str, str]:
    """Return by model which of its replicas are out of reach or draining, in words."""
    found: dict[str, list[str]] = {}
    now = plane.clock.now()
    for one in seen(plane):
        found.setdefault(one.model or "", []).extend(_told(one, now))
    return {model: "; ".join(told) for model, told in found.items() if told}


def _told(one: ReplicaShown, now: float) -> Iterator[str]:
    if one.away_words:
        yield f"{one.id}: {one.away_words}"
    elif one.draining is not None:
        yield f"{one.id} is draining: {draining_words(one.draining, now)}"


def _drains(plane: Plane) -> dict[str, Draining]:
    drains = plane.fleet.drains()
    if not drains:
        return {}
    limit = plane.settings.current.settings.reconcile.drain_limit
    loads = {load.replica: load for load in plane.fleet.loads()}
    now = plane.clock.now()
    return {
        one.replica: Draining(
            left=in_flight(one, loads.get(one.replica)),
            until=now + limit - one.lasts,
            told=one.told,
        )
        for one in drains
    }


OPERATIONS = (
    Operation("GET", f"{PREFIX}/replicas", READ, replicas, "All replicas."),
    Operation("GET", f"{PREFIX}/replicas/{{id}}", READ, replica, "One replica."),
)
