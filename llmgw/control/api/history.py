"""How a node was: from memory for an hour, from a Prometheus for longer."""

import asyncio
import difflib

import msgspec

from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.control import ranges
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import NodeHistoryQuery
from llmgw.control.history import STEP, History
from llmgw.model.history import HOUR, MEMORY, NAMES, NodeHistory
from llmgw.model.keys import READ


async def node_history(call: Call, query: NodeHistoryQuery) -> NodeHistory:
    """Return how a node was in the last minutes.

    The hour in memory is laid over what Prometheus tells. Where that can't say, the hour alone is
    told, and why it is not more.
    """
    node, plane = call.path["id"], call.plane
    if plane.fleet.node(node) is None:
        raise NotFound(f"no node {node!r}", hint="list them: llmgw ctl nodes")
    names = _names(query.series)
    if query.minutes <= HOUR:
        return _kept(plane.history, node, names, query.minutes)
    kept = _kept(plane.history, node, names, HOUR)
    url = plane.settings.current.settings.prometheus.url
    if not url:
        problem = "only the last hour is kept; for more, set prometheus.url"
    else:
        try:
            told = await plane.prometheus.history(
                url,
                node,
                names,
                cluster=plane.cluster,
                minutes=query.minutes,
                now=plane.clock.now(),
            )
        except LlmgwError as error:
            problem = f"only the last hour is told: {error.message}"
        else:
            return await asyncio.to_thread(ranges.with_memory, told, kept)
    return msgspec.structs.replace(kept, problem=problem)


def _kept(history: History, node: str, names: tuple[str, ...], minutes: int) -> NodeHistory:
    points = max(1, round(minutes * 60 / STEP))
    return NodeHistory(
        step=STEP, until=history.until, series=history.of(node, names, points), source=MEMORY
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"series are {', '.join(NAMES)}"
            raise Unreadable(f"series: there is no series {name[:40]!r}", hint=hint)
    return names


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/nodes/{{id}}/history",
        READ,
        node_history,
        "How a node and its devices were: an hour from memory, more from a Prometheus.",
    ),
)
