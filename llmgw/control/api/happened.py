"""What happened, who did it, and what was used."""

from llmgw.base.errors import Unreadable
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import LimitQuery, SinceQuery, UsageQuery, UsageSumsQuery
from llmgw.control.usage import summed, told_apart
from llmgw.model.events import AuditEntry, Event
from llmgw.model.keys import ADMIN, READ, UsageRow, UsageSum

DAY = 86400.0


async def events(call: Call, query: SinceQuery) -> tuple[Event, ...]:
    """Return events, oldest first; without a time those that are in memory."""
    if query.since is None:
        return call.plane.events.recent()
    return await call.plane.events.since(query.since)


async def audit(call: Call, query: LimitQuery) -> tuple[AuditEntry, ...]:
    """Return what people changed, newest first."""
    return await call.plane.store.audit(query.limit)


async def usage(call: Call, query: UsageQuery) -> tuple[UsageRow, ...]:
    """Return what was used, by hour, key and model."""
    return await _used(call, query.since, query.until)


async def usage_sums(call: Call, query: UsageSumsQuery) -> tuple[UsageSum, ...]:
    """Return sums of what was used, by whatever is told apart."""
    by = told_apart(query.by)
    rows = await _used(call, query.since, query.until)
    return summed((row for row in rows if query.key in {None, row.key}), by)


async def _used(call: Call, since: float | None, until: float | None) -> tuple[UsageRow, ...]:
    end = call.plane.clock.now() if until is None else until
    begin = max(0.0, end - DAY) if since is None else since
    if begin > end:
        raise Unreadable("query: since is after until")
    return await call.plane.usage(begin, end)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/events", READ, events, "What happened, oldest first."),
    Operation("GET", f"{PREFIX}/audit", ADMIN, audit, "Who changed what, newest first."),
    Operation("GET", f"{PREFIX}/usage", READ, usage, "What was used, by hour, key and model."),
    Operation("GET", f"{PREFIX}/usage/sums", READ, usage_sums, "What was used, added up."),
)
