"""A record as the feed sends it, and about how much of a batch it takes."""

import msgspec

from llmgw.model.feed import Change, ConfigChange, JsonChange, KeyChange, RouteChange
from llmgw.model.gateway import GatewayConfig, Route
from llmgw.model.keys import Key
from llmgw.model.record import Record


def payload(record: Record | None) -> RouteChange | KeyChange | ConfigChange | JsonChange | None:
    """Return a record as a change carries it: typed where gateways read it, else as JSON."""
    match record:
        case None:
            return None
        case Route():
            return RouteChange(value=record)
        case Key():
            return KeyChange(value=record)
        case GatewayConfig():
            return ConfigChange(value=record)
        case _:
            return JsonChange(value=msgspec.json.encode(record))


def weight_of(change: Change) -> int:
    """Return about how many bytes a change takes on the wire."""
    match change.record:
        case JsonChange(value=value):
            return len(value)
        case RouteChange(value=route):
            return 100 + 250 * len(route.endpoints)
        case KeyChange(value=key):
            return 300 + 40 * len(key.models or ())
        case _:
            return 100
