"""Requests in flight: asked for at the gateways each time, and ended by operators."""

import msgspec

from llmgw.base.errors import NotFound, Unreachable
from llmgw.control.api.answer import TurnedAway
from llmgw.control.api.live_shapes import CancelRequestsBody, RequestsQuery
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.live import Answers
from llmgw.control.plane import Plane
from llmgw.model.events import AuditEntry
from llmgw.model.keys import OPERATE, READ
from llmgw.model.live import (
    MOST,
    AskRequests,
    RequestsCancelled,
    RequestsEnded,
    RequestShown,
    RequestsSeen,
    RequestsShown,
    Silent,
)

WORDS = "an operator cancelled the request"
AUDITED_MOST = 100
"""Requests of which an audit entry names key, model and client."""


async def requests(call: Call, query: RequestsQuery) -> RequestsShown:
    """Return what is in flight at all gateways."""
    check_leading(call.plane)
    ask = AskRequests(
        ask="",
        limit=query.limit,
        newest=query.newest,
        ids=tuple(one for one in query.ids.split(",") if one)[:MOST],
        key=query.key,
        model=query.model,
        replica=query.replica,
        node=query.node,
        state=query.state,
    )
    answers = await call.plane.gateways.live.seen(ask, query.gateway)
    return _shown(answers, query.limit, at=call.plane.clock.now(), newest=query.newest)


async def cancel_request(call: Call) -> None:
    """End one request: its client is told that an operator did it."""
    wanted = call.path["id"]
    done = await _cancel(call, (wanted,))
    if done.cancelled:
        return
    if done.silent:
        one = done.silent[0]
        raise Unreachable(
            f"no request {wanted!r} was found, but gateway {one.gateway} says nothing: {one.words}"
        )
    raise NotFound(
        f"no request {wanted!r} is in flight: it ended, or there was none",
        hint="list them: llmgw ctl requests",
    )


async def cancel_requests(call: Call, body: CancelRequestsBody) -> RequestsCancelled:
    """End several requests; those that ended meanwhile are no error."""
    return await _cancel(call, tuple(dict.fromkeys(body.ids)))


async def _cancel(call: Call, ids: tuple[str, ...]) -> RequestsCancelled:
    """Look what they are, so that the audit says whose they were; write that; end them.

    In this order: nobody is cut off without a trace, also when the store is away.
    """
    live = call.plane.gateways.live
    found = await live.seen(AskRequests(ask="", limit=MOST, ids=ids))
    seen = _shown(found, MOST, at=call.plane.clock.now(), newest=False)
    there = {one.id for one in seen.requests}
    if not there:
        return RequestsCancelled(cancelled=(), gone=ids, silent=seen.silent)
    await _audit(call, seen)
    ended = await live.end(tuple(one for one in ids if one in there), WORDS)
    done = {
        one
        for answer in ended.by_gateway.values()
        if isinstance(answer, RequestsEnded)
        for one in answer.ids
    }
    return RequestsCancelled(
        cancelled=tuple(one for one in ids if one in done),
        gone=tuple(one for one in ids if one not in done),
        silent=_both(seen.silent, ended.silent),
    )


async def _audit(call: Call, seen: RequestsShown) -> None:
    """Record who ends what."""
    names = ("id", "key", "key_name", "model", "client", "tokens")
    named = [{name: getattr(one, name) for name in names} for one in seen.requests[:AUDITED_MOST]]
    count = len(seen.requests)
    entry = AuditEntry(
        at=call.plane.clock.now(),
        actor=call.caller.name,
        action="request.cancel",
        subject=seen.requests[0].id if count == 1 else f"{count} requests",
        before=msgspec.json.encode({"requests": named, "more": count - len(named)}).decode(),
    )
    await call.plane.store.put_audit(entry)


def _shown(answers: Answers, limit: int, *, at: float, newest: bool) -> RequestsShown:
    seen = [one for one in answers.by_gateway.values() if isinstance(one, RequestsSeen)]
    found = [
        RequestShown(gateway=answer.gateway, **msgspec.structs.asdict(one))
        for answer in seen
        for one in answer.requests
    ]
    found.sort(key=lambda one: one.age, reverse=not newest)
    return RequestsShown(
        at=at,
        total=sum(one.total for one in seen),
        matching=sum(one.matching for one in seen),
        requests=tuple(found[:limit]),
        silent=answers.silent,
    )


def _both(one: tuple[Silent, ...], other: tuple[Silent, ...]) -> tuple[Silent, ...]:
    return tuple({silent.gateway: silent for silent in (*one, *other)}.values())


def check_leading(plane: Plane) -> None:
    """Refuse on a standby: gateways are connected to the leader, and nothing is in flight here."""
    if not plane.leader:
        where = plane.elsewhere()
        raise TurnedAway(503, "not_leader", where.message, hint=where.hint)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/requests", READ, requests, "Requests in flight, oldest first."),
    Operation(
        "POST",
        f"{PREFIX}/requests/cancel",
        OPERATE,
        cancel_requests,
        "End several requests in flight; what they produced is booked.",
    ),
    Operation(
        "DELETE",
        f"{PREFIX}/requests/{{id}}",
        OPERATE,
        cancel_request,
        "End a request in flight; what it produced is booked.",
        status=204,
    ),
)
