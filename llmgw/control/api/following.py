"""List, then watch, over HTTP."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from llmgw.control.api.operation import PREFIX, Call, Operation, Sent
from llmgw.control.api.shapes import (
    ChangeShown,
    EndpointShown,
    Listing,
    RouteShown,
    TopicsQuery,
    WatchEvent,
    WatchQuery,
)
from llmgw.control.feed import Follower
from llmgw.model.feed import (
    Batch,
    Change,
    ConfigChange,
    JsonChange,
    KeyChange,
    Position,
    RouteChange,
)
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.keys import READ


async def list_topics(call: Call, query: TopicsQuery) -> Listing:
    """Return all records of some topics, and the position from which to watch."""
    topics = _topics(query.topics)
    batch = call.plane.feed.listing(topics)
    found: dict[str, list[Change]] = {topic: [] for topic in topics}
    for change in batch.changes:
        found[change.topic].append(change)
    return Listing(
        position=batch.position,
        topics={topic: tuple(_record(one) for one in some) for topic, some in found.items()},
        ids={topic: tuple(one.id for one in some) for topic, some in found.items()},
    )


async def watch_topics(call: Call, query: WatchQuery) -> Sent[WatchEvent]:
    """Follow topics: one event a batch, a listing first where the position says nothing here."""
    position = None
    if query.epoch is not None and query.number is not None:
        position = Position(epoch=query.epoch, number=query.number)
    follower = call.plane.feed.follow(_topics(query.topics), position)
    return Sent(events=_events(follower), close=follower.close)


def shown_route(route: Route) -> RouteShown:
    """Return a route without its endpoints' keys."""
    return RouteShown(
        model=route.model,
        endpoints=tuple(_shown_endpoint(one) for one in route.endpoints),
        wanted=route.wanted,
        reason=route.reason,
    )


async def _events(follower: Follower) -> AsyncIterator[WatchEvent]:
    async for batch in follower:
        yield _event(batch)


def _event(batch: Batch) -> WatchEvent:
    return WatchEvent(
        position=batch.position,
        listing=batch.listing,
        more=batch.more,
        changes=tuple(
            ChangeShown(topic=one.topic, id=one.id, record=_record(one)) for one in batch.changes
        ),
    )


def _record(change: Change) -> object:
    match change.record:
        case None:
            return None
        case JsonChange(value=value):
            return msgspec.Raw(value)
        case RouteChange(value=route):
            return shown_route(route)
        case KeyChange(value=key):
            return key
        case ConfigChange(value=config):
            return config


def _shown_endpoint(endpoint: Endpoint) -> EndpointShown:
    return EndpointShown(
        replica=endpoint.replica,
        node=endpoint.node,
        host=endpoint.host,
        port=endpoint.port,
        keyed=endpoint.key is not None,
        served_name=endpoint.served_name,
        engine=endpoint.engine,
        last_resort=endpoint.last_resort,
    )


def _topics(text: str) -> Sequence[str]:
    return tuple(dict.fromkeys(topic.strip() for topic in text.split(",")))


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/list",
        READ,
        list_topics,
        "All records of some topics, and the position from which to watch.",
    ),
    Operation(
        "GET",
        f"{PREFIX}/watch",
        READ,
        watch_topics,
        "Follow topics: server-sent events, one a batch, a comment each 15 s.",
    ),
)
