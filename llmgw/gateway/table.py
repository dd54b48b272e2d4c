"""The table: routes, keys and settings, as the parent keeps it and batches of it change it."""

from collections.abc import Iterable, Iterator

import msgspec

from llmgw.gateway.frames import TableFrame
from llmgw.model.feed import (
    KEYS,
    ROUTES,
    SETTINGS,
    Batch,
    Change,
    ConfigChange,
    KeyChange,
    Position,
    RouteChange,
)
from llmgw.model.gateway import Endpoint, GatewayConfig, Route
from llmgw.model.keys import Key
from llmgw.model.record import Record
from llmgw.model.settings import GatewaySettings

TOPICS = (ROUTES, KEYS, SETTINGS)
"""What a gateway follows, and nothing else."""


def default_config() -> GatewayConfig:
    """Return the settings of a gateway that was told none."""
    return config_of(GatewaySettings())


def config_of(settings: GatewaySettings) -> GatewayConfig:
    """Return settings as workers are told them."""
    return GatewayConfig(
        version=0,
        request_body_bytes=settings.request_body_bytes,
        connect_timeout=settings.connect_timeout,
        first_byte_timeout=settings.first_byte_timeout,
        idle_timeout=settings.idle_timeout,
        client_timeout=settings.client_timeout,
        held_most=settings.held_most,
        held_for=settings.held_for,
        queue_most=settings.queue_most,
        queue_for=settings.queue_for,
        replica_requests=settings.replica_requests,
        comment_period=settings.comment_period,
        replica_connections=settings.replica_connections,
        held_bytes=settings.held_bytes,
    )


class Table(Record, frozen=True, kw_only=True):
    """One state of it; also what stands in the file that a restarted gateway serves from."""

    routes: dict[str, Route] = msgspec.field(default_factory=dict)
    keys: dict[str, Key] = msgspec.field(default_factory=dict)
    config: GatewayConfig | None = None


class TableBook:
    """The newest whole table, and the place in the feed that it stands for.

    Half a listing is never shown: a listing replaces the table with its last batch.
    """

    def __init__(self) -> None:
        self.table = Table()
        self.received = False
        self.position: Position | None = None
        """Where to go on after a reconnect; None: list."""
        self._listing: Table | None = None

    def restore(self, table: Table) -> None:
        """Take the table that the file kept; what changed since is not known."""
        self.table = table
        self.received = True

    def replace(self, table: Table) -> TableFrame:
        """Take a table that is no feed's; return what workers are told."""
        frame = difference(self.table, table)
        self.table, self.received = table, True
        return frame

    def begin(self) -> None:
        """Forget half a listing: the stream that brought it is gone."""
        self._listing = None

    def apply(self, batch: Batch) -> TableFrame | None:
        """Apply a batch; return what workers are told, None in the middle of a listing."""
        if batch.listing:
            self._listing = Table()
        base = self.table if self._listing is None else self._listing
        after = _changed(base, batch.changes)
        if batch.more and self._listing is not None:
            self._listing = after
            return None
        frame = difference(self.table, after)
        self.table, self._listing = after, None
        self.position = batch.position
        self.received = True
        return frame


def endpoints_of(routes: Iterable[Route]) -> Iterator[Endpoint]:
    """Yield every endpoint that requests for these routes can go to."""
    for route in routes:
        yield from route.endpoints
        if route.outside is not None:
            yield route.outside


def whole(table: Table) -> TableFrame:
    """Return a whole table as a worker is told it."""
    return TableFrame(
        listing=True,
        routes=tuple(table.routes.values()),
        keys=tuple(table.keys.values()),
        config=table.config,
    )


def difference(before: Table, after: Table) -> TableFrame:
    """Return what a worker with one table has to be told to have the other."""
    return TableFrame(
        routes=tuple(
            route for name, route in after.routes.items() if before.routes.get(name) != route
        ),
        gone_routes=tuple(name for name in before.routes if name not in after.routes),
        keys=tuple(key for key_id, key in after.keys.items() if before.keys.get(key_id) != key),
        gone_keys=tuple(key_id for key_id in before.keys if key_id not in after.keys),
        config=after.config if after.config != before.config else None,
    )


def _changed(table: Table, changes: tuple[Change, ...]) -> Table:
    routes, keys, config = dict(table.routes), dict(table.keys), table.config
    for change in changes:
        match change.record:
            case RouteChange(value=route):
                routes[change.id] = route
            case KeyChange(value=key):
                keys[change.id] = key
            case ConfigChange(value=value):
                config = value
            case _:
                # A tombstone, or a kind that this version does not know.
                if change.topic == ROUTES:
                    routes.pop(change.id, None)
                elif change.topic == KEYS:
                    keys.pop(change.id, None)
    return Table(routes=routes, keys=keys, config=config)


encode_table = msgspec.msgpack.Encoder().encode
decode_table = msgspec.msgpack.Decoder(Table).decode
