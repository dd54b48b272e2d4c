"""The requests that a worker serves, walked when somebody asks: nothing is kept for it.

The walk costs about a microsecond a request. Only those that are told of become records.
"""

from collections.abc import Iterator, Mapping
from heapq import nlargest, nsmallest
from typing import NamedTuple

from llmgw.gateway.admission.gate import Waits
from llmgw.gateway.frames import Inquiry, Told
from llmgw.gateway.front import Front
from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.client import ClientConnection
from llmgw.gateway.proxy.means import Live
from llmgw.gateway.proxy.turn import Turn
from llmgw.gateway.refusals import Refusal
from llmgw.model.live import (
    MOST,
    AskRequests,
    CancelRequests,
    LiveRequest,
    RequestsEnded,
    RequestsSeen,
)

CANCELLED = "cancelled_by_operator"


class _Found(NamedTuple):
    connection: ClientConnection
    live: Live


def answer(front: Front, inquiry: Inquiry) -> Told:
    """Return a worker's answer to an inquiry; a fault costs this answer, and not the worker."""
    ask, cancel = inquiry.ask, inquiry.cancel
    try:
        if cancel is not None:
            return Told(ended=_end(front, cancel))
        if ask is not None:
            return Told(seen=_seen(front, ask))
    except Exception as error:  # noqa: BLE001 (the others in flight go on)
        faults.note(error, "tell of requests in flight")
    return Told()


def _seen(front: Front, ask: AskRequests) -> RequestsSeen:
    every = list(_in_flight(front))
    ids = frozenset(one.encode() for one in ask.ids)
    found = [one for one in every if _fits(one.live, ask, ids)]
    choose = nlargest if ask.newest else nsmallest
    shown = choose(min(ask.limit, MOST), found, key=lambda one: one.live.account.began)
    waits = any(one.live.engine is None for one in shown)
    places = front.gate.places() if waits else {}
    now = front.deadlines.now()
    return RequestsSeen(
        gateway="",
        ask=ask.ask,
        total=len(every),
        matching=len(found),
        requests=tuple(_record(one, places, now) for one in shown),
    )


def _end(front: Front, cancel: CancelRequests) -> RequestsEnded:
    ids = frozenset(one.encode() for one in cancel.ids)
    ended = []
    for one in [one for one in _in_flight(front) if one.live.task.request_id in ids]:
        live = one.live
        if one.connection.live is not live or not live.account.is_open:
            continue  # ending the one before has ended it, or let it go on
        ended.append(live.task.request_id.decode())
        live.cancelled(Refusal(CANCELLED, cancel.words))
    return RequestsEnded(gateway="", ask=cancel.ask, ids=tuple(ended))


def _in_flight(front: Front) -> Iterator[_Found]:
    for connection in front.connections:
        live = connection.live
        if live is not None:
            yield _Found(connection, live)


def _fits(live: Live, ask: AskRequests, ids: frozenset[bytes]) -> bool:
    """Say whether a request is one that was asked for."""
    task = live.task
    if ids and task.request_id not in ids:
        return False
    if ask.state is not None and live.state != ask.state:
        return False
    if ask.model is not None and ask.model not in {task.way.model, task.name}:
        return False
    return _fits_key(live, ask.key) and _fits_engine(live, ask)


def _fits_key(live: Live, key: str | None) -> bool:
    holder = live.task.request.holder
    return key is None or (holder is not None and key in {holder.id, holder.key.name})


def _fits_engine(live: Live, ask: AskRequests) -> bool:
    if ask.replica is None and ask.node is None:
        return True
    engine = live.engine
    if engine is None:
        return False
    there = engine.endpoint
    return ask.replica in {None, there.replica} and ask.node in {None, there.node}


def _record(found: _Found, places: Mapping[Waits, int], now: float) -> LiveRequest:
    live = found.live
    task, engine, holder = live.task, live.engine, live.task.request.holder
    return LiveRequest(
        id=task.request_id.decode(),
        key=holder.id if holder is not None else "",
        key_name=holder.key.name if holder is not None else "",
        model=task.way.model,
        asked=task.name if task.name != task.way.model else None,
        replica=engine.endpoint.replica if engine is not None else None,
        node=engine.endpoint.node if engine is not None else None,
        path=task.request.path.decode("utf-8", "replace"),
        streams=task.streams,
        state=live.state,
        place=places.get(live) if isinstance(live, Turn) else None,
        age=max(0.0, now - live.account.began),
        tokens=live.tokens,
        client=found.connection.peer,
    )
