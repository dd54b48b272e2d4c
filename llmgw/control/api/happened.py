"""What happened, who did it, and what was used."""

from llmgw.base.errors import Unreadable
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import LimitQuery, SinceQuery, UsageQuery
from llmgw.model.events import AuditEntry, Event
from llmgw.model.keys import ADMIN, READ, UsageRow

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
    until = call.plane.clock.now() if query.until is None else query.until
    since = max(0.0, until - DAY) if query.since is None else query.since
    if since > until:
        raise Unreadable("query: since is after until")
    return await call.plane.usage(since, until)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/events", READ, events, "What happened, oldest first."),
    Operation("GET", f"{PREFIX}/audit", ADMIN, audit, "Who changed what, newest first."),
    Operation("GET", f"{PREFIX}/usage", READ, usage, "What was used, by hour, key and model."),
)
