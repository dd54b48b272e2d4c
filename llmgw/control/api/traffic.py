"""How requests go: rates and percentiles of a moment, the last hour, and how keys stand."""

from collections.abc import Iterable

from llmgw.control.api.live_shapes import FlowHistoryQuery, FlowQuery
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.requests import check_leading
from llmgw.control.flow import flow
from llmgw.control.key_use import DAY, HOUR
from llmgw.control.plane import Plane
from llmgw.model.flow import Flow, FlowHistory
from llmgw.model.keys import READ, UsageRow
from llmgw.model.live import QUEUED, AskRequests, RequestsSeen
from llmgw.model.standing import KeyStanding, Spent


async def traffic(call: Call, query: FlowQuery) -> Flow:
    """Return how requests go through all gateways that are connected."""
    plane = call.plane
    check_leading(plane)
    oldest = await _oldest_waiting(plane)
    reports = plane.gateways.live_traffic()
    window, deltas = plane.rates.window(reports, query.window, monotonic=plane.clock.monotonic())
    return flow(
        deltas,
        window,
        reports,
        plane.gateways.queues(),
        plane.gateways.all(),
        at=plane.clock.now(),
        oldest_waiting=oldest,
    )


async def _oldest_waiting(plane: Plane) -> float | None:
    """Ask gateways for it, where they told that any waits."""
    if not any(count for one in plane.gateways.queues().values() for count in one.values()):
        return None
    told = await plane.gateways.live.seen(AskRequests(ask="", limit=1, state=QUEUED))
    seen = (one for one in told.by_gateway.values() if isinstance(one, RequestsSeen))
    return max((request.age for one in seen for request in one.requests), default=None)


async def traffic_history(call: Call, query: FlowHistoryQuery) -> FlowHistory:
    """Return how requests went in the last hour."""
    check_leading(call.plane)
    return call.plane.rates.hour(query.model)


async def key_use(call: Call) -> tuple[KeyStanding, ...]:
    """Return how every key stands, by name; those that were revoked and used lately come last."""
    plane, now = call.plane, call.plane.clock.now()
    begin = now - now % HOUR
    rows = plane.gateways.key_uses.fresh_rows()
    if rows is None:
        rows = await plane.usage(begin - DAY, now)
        plane.gateways.key_uses.keep_rows(rows)
    by_key: dict[str, list[UsageRow]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    known = {one.id: one.name for one in plane.keys.all()}
    revoked = sorted(by_key.keys() - known.keys())
    over = frozenset(plane.gateways.quotas.over())
    return tuple(
        _standing(plane, key, known.get(key), by_key.get(key, ()), begin, over=key in over)
        for key in (*known, *revoked)
    )


def _standing(
    plane: Plane,
    key: str,
    name: str | None,
    rows: Iterable[UsageRow],
    hour: float,
    *,
    over: bool,
) -> KeyStanding:
    day = tuple(rows)
    uses = plane.gateways.key_uses
    last_hour = max((row.hour for row in day if row.requests), default=None)
    refused = uses.refused(key)
    return KeyStanding(
        id=key,
        name=name,
        revoked=name is None,
        hour=_spent(row for row in day if row.hour >= hour),
        day=_spent(day),
        last_used=uses.last_used(key) or last_hour,
        used=plane.gateways.quotas.used_of_late(key),
        over=over,
        refused=None if refused is None else refused[0],
        refused_at=None if refused is None else refused[1],
    )


def _spent(rows: Iterable[UsageRow]) -> Spent:
    found = tuple(rows)
    return Spent(
        requests=sum(row.requests for row in found),
        prompt_tokens=sum(row.prompt_tokens for row in found),
        completion_tokens=sum(row.completion_tokens for row in found),
        cancelled=sum(row.cancelled for row in found),
        failed=sum(row.failed for row in found),
    )


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/traffic",
        READ,
        traffic,
        "How requests go: rates, times, errors, queues, by model and by gateway.",
    ),
    Operation(
        "GET",
        f"{PREFIX}/traffic-history",
        READ,
        traffic_history,
        "How requests went in the last hour, from memory.",
    ),
    Operation(
        "GET", f"{PREFIX}/key-use", READ, key_use, "What keys used, of which limits, when last."
    ),
)
