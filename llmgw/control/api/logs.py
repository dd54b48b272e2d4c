"""Logs of nodes and of the engines on them, read over their streams."""

from collections.abc import AsyncIterator

from llmgw.base.errors import Refused
from llmgw.control.api.operation import PREFIX, Call, Operation, Sent
from llmgw.control.api.shapes import LogEvent, Logs, LogsQuery
from llmgw.model.commands import LogLines, LogsRead, ReadLogs
from llmgw.model.keys import READ


async def logs(call: Call, query: LogsQuery) -> Logs:
    """Return the last lines of a node's agent, or of a shard on it."""
    node = call.path["id"]
    answer = await call.plane.agents.ask(node, ReadLogs(source=query.source, lines=query.lines))
    if not isinstance(answer, LogsRead):
        raise Refused(f"{node} answered a request for its log with something else")
    return Logs(lines=answer.lines, sources=answer.sources)


async def follow_logs(call: Call, query: LogsQuery) -> Sent[LogEvent]:
    """Return the last lines, then those that come."""
    lines = call.plane.agents.follow_logs(call.path["id"], query.source, query.lines)
    # The first lines are waited for here: what hinders it is answered as an error with its status.
    first = await anext(lines)
    return Sent(events=_events(first, lines))


async def _events(first: LogLines, later: AsyncIterator[LogLines]) -> AsyncIterator[LogEvent]:
    yield _event(first)
    async for some in later:
        yield _event(some)


def _event(some: LogLines) -> LogEvent:
    return LogEvent(lines=some.lines, dropped=some.dropped)


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/nodes/{{id}}/logs",
        READ,
        logs,
        "The last lines of a node's agent, or of a shard on it.",
    ),
    Operation(
        "GET",
        f"{PREFIX}/nodes/{{id}}/logs/follow",
        READ,
        follow_logs,
        "The last lines, then those that come: server-sent events.",
    ),
)
