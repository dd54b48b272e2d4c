"""The engines that a worker knows: their connections, what is in flight there, how they are."""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from llmgw.base.log import get
from llmgw.gateway.cells import Cells
from llmgw.gateway.frames import Standing
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.route.budget import RetryBudget
from llmgw.gateway.route.health import Health
from llmgw.gateway.route.load import Load, assume
from llmgw.gateway.route.prefix import mark_of
from llmgw.model.gateway import Endpoint, EngineLoads, GatewayConfig, Route

log = get(__name__)

IDLE_MOST = 16
"""Idle connections kept to one engine: llama-server holds a thread for each."""
IDLE_SECONDS = 4.0
"""Engines close idle connections after about 5 seconds; this is earlier."""
HTTP, HTTPS = 80, 443
API = b"/v1"
"""What a base path stands in place of."""
LOOK = 1.0
"""Seconds between two looks at what engines have to do."""


class Engine:
    """One endpoint of the table as this worker uses it."""

    __slots__ = (
        "_base",
        "_cells",
        "_head",
        "_load",
        "column",
        "endpoint",
        "gathers",
        "gone",
        "health",
        "idle",
        "last_resort",
        "mark",
    )

    def __init__(self, endpoint: Endpoint, cells: Cells, column: int) -> None:
        self.endpoint = endpoint
        self.health = Health()
        self.last_resort = endpoint.last_resort
        self.idle: list[EngineConnection] = []
        self.gathers = True
        """Answers can be put together from what it streams, as far as is known."""
        self.gone = False
        """It left the table: its connections are not kept."""
        self.column = column
        self.mark = mark_of(column)
        """Its bit in the table of prefixes."""
        self._cells = cells
        self._load = Load()
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        usual = HTTPS if endpoint.tls else HTTP
        port = "" if endpoint.port == usual else f":{endpoint.port}"
        lines = f"host: {host}{port}\r\n"
        if endpoint.key is not None:
            lines += f"authorization: Bearer {endpoint.key}\r\n"
        self._head = lines.encode()
        self._base = None if endpoint.base_path is None else endpoint.base_path.encode()

    def load(self, own: int, now: float) -> float:
        """Return what it has to do, in requests: what this gateway has there, and others have."""
        return self._load.total(own, now)

    @property
    def strained(self) -> bool:
        """Say whether its engine says that it is full."""
        return self._load.strained

    @property
    def of_others(self) -> Load:
        """Return what is known of what it has to do beside this gateway's requests."""
        return self._load

    def look(self, now: float) -> None:
        """Note what is in flight there now."""
        self._load.seen(self._cells.load(self.column), now)

    def worked(self, now: float) -> None:
        """Note that it answered; one that is back is not given everything at once."""
        if self.health.failures:
            self.health.worked()
            self._load.starts(now)

    def in_flight(self) -> int:
        """Return how many of this gateway's requests are there, over all workers."""
        return self._cells.load(self.column)

    def entered(self, now: float) -> bool:
        """Count a request, at the moment it is sent there; say whether it is a probe."""
        self._cells.add(self.column, 1)
        return self.health.chosen(now)

    def left(self, *, probe: bool) -> None:
        """Count it no longer."""
        self._cells.add(self.column, -1)
        if probe:
            self.health.released()

    def stops_gathering(self) -> None:
        """Ask it for whole answers from now on: its stream has something unknown in it."""
        if self.gathers:
            self.gathers = False
            log.warning("answers are not gathered from this engine", replica=self.endpoint.replica)

    def head(self, path: bytes, lines: bytes, length: int) -> bytes:
        """Return a request's head: the engine's own key, and of the client's head only `lines`."""
        if self._base is not None:
            path = self._base + path[len(API) :]
        return b"POST %b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n" % (
            path,
            self._head,
            lines,
            length,
        )

    def take_idle(self) -> EngineConnection | None:
        """Return a connection that is open already; the one used last is the likeliest to be."""
        while self.idle:
            connection = self.idle.pop()
            if connection.usable:
                return connection
        return None

    def give_back(self, connection: EngineConnection, now: float) -> None:
        """Keep a connection for the next request, or close it."""
        if not connection.usable:
            return
        if self.gone or len(self.idle) >= IDLE_MOST:
            connection.close()
            return
        connection.idle_since = now
        connection.on_idle_lost = self
        self.idle.append(connection)

    def idle_lost(self, connection: EngineConnection) -> None:
        """Forget a connection that the engine closed."""
        if connection in self.idle:
            self.idle.remove(connection)

    def close_idle(self, before: float) -> None:
        """Close connections that have been idle since before a time."""
        old = [one for one in self.idle if one.idle_since < before]
        for connection in old:
            self.idle.remove(connection)
            connection.close()

    async def connect(self, timeout: float) -> EngineConnection:
        """Return a new connection; whoever asked for it owns it.

        Raises:
            OSError: it could not be made (TimeoutError: not in time).
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(
                EngineConnection,
                self.endpoint.host,
                self.endpoint.port,
                ssl=_trusted() if self.endpoint.tls else None,
            )
        return connection


class Way:
    """A route as this worker uses it."""

    __slots__ = (
        "budget",
        "engines",
        "fallback",
        "holds",
        "model",
        "outside",
        "reason",
        "splits",
        "stands_in_for",
        "wanted",
    )

    def __init__(
        self, route: Route, engines: tuple[Engine, ...], budget: RetryBudget | None = None
    ) -> None:
        self.model = route.model
        self.wanted = route.wanted
        self.reason = route.reason
        self.holds = route.holds
        self.engines = engines
        self.budget = budget or RetryBudget()
        """Of requests that are sent again."""
        self.splits = route.splits
        self.fallback = route.fallback
        self.outside: Way | None = None
        """A provider, where one stands in."""
        self.stands_in_for: str | None = None
        """The model whose provider this is."""

    def every_engine(self) -> Iterable[Engine]:
        """Return its engines, and that of the provider that stands in."""
        return self.engines if self.outside is None else (*self.engines, *self.outside.engines)


def shared(way: Way, ways: Mapping[str, Way], below: Callable[[int], int]) -> Way:
    """Return which of the models under a public name a request is for, by their weights.

    The share of one that nothing serves goes to the others.

    Args:
        way: the public name's.
        ways: all of them.
        below: a random integer from 0 to below its argument.
    """
    weighed = [(ways[one.model], one.weight) for one in way.splits if one.model in ways]
    weighed = [one for one in weighed if one[0].engines] or weighed
    total = sum(weight for _, weight in weighed)
    if not total:
        return way
    left = below(total)
    for one, weight in weighed:
        left -= weight
        if left < 0:
            return one
    return way


class Engines:
    """All of them, by replica: a route that comes again keeps the connections and the health."""

    def __init__(self, cells: Cells, now: Callable[[], float]) -> None:
        self.standing = Standing()
        """How they were at the last look."""
        self._cells = cells
        self._now = now
        self._by_replica: dict[str, Engine] = {}
        self._ways: dict[str, Way] = {}
        self._looked = float("-inf")

    def way(self, route: Route, columns: Mapping[str, int]) -> Way:
        """Return a route with its engines; `columns` names the cells' column of each replica."""
        before = self._ways.get(route.model)
        engines = []
        for one in route.endpoints:
            is_new = one.replica not in self._by_replica
            engine = self._engine(one, columns[one.replica])
            if is_new and before is not None and before.engines:
                engine.of_others.starts(self._now())
            engines.append(engine)
        way = Way(route, tuple(engines), None if before is None else before.budget)
        if route.outside is not None:
            engine = self._engine(route.outside, columns[route.outside.replica])
            name = route.outside.served_name or route.model
            way.outside = Way(Route(model=name), (engine,))
            way.outside.stands_in_for = route.model
        return way

    def keep(self, ways: Iterable[Way]) -> None:
        """Close the idle connections to engines that no route has any more."""
        self._ways = {way.model: way for way in ways}
        kept = {engine for way in self._ways.values() for engine in way.every_engine()}
        for replica, engine in list(self._by_replica.items()):
            if engine not in kept:
                engine.gone = True
                engine.close_idle(float("inf"))
                del self._by_replica[replica]

    def look(self, now: float) -> None:
        """Close what has been idle for long; settle what engines have to do."""
        for engine in self._by_replica.values():
            engine.close_idle(now - IDLE_SECONDS)
        if now - self._looked >= LOOK:
            self._looked = now
            for engine in self._by_replica.values():
                engine.look(now)
            self._assume(now)
            self.standing = self._stand(now)

    def take_loads(self, told: EngineLoads) -> None:
        """Take what engines say that they have to do."""
        now = self._now()
        for one in told.loads:
            engine = self._by_replica.get(one.replica)
            if engine is not None:
                engine.look(now)
                until = now + told.stale_after - one.age
                engine.of_others.said(one.running, one.waiting, one.cache_used, until)
        self._assume(now)

    def _assume(self, now: float) -> None:
        for way in self._ways.values():
            assume([engine.of_others for engine in way.engines], now)

    def _stand(self, now: float) -> Standing:
        counted = [(name, one, one.in_flight()) for name, one in self._by_replica.items()]
        return Standing(
            failed=tuple(name for name, one, _ in counted if one.health.failures),
            scores={name: round(one.load(own, now), 1) for name, one, own in counted if own > 0},
        )

    def _engine(self, endpoint: Endpoint, column: int) -> Engine:
        known = self._by_replica.get(endpoint.replica)
        if known is not None and known.column == column:
            if known.endpoint == endpoint:
                return known
            if _same_place(known.endpoint, endpoint):
                # Only the standing changed (a lost node): connections and health stay.
                known.last_resort = endpoint.last_resort
                known.endpoint = endpoint
                return known
        if known is not None:
            known.gone = True
            known.close_idle(float("inf"))
        engine = Engine(endpoint, self._cells, column)
        self._by_replica[endpoint.replica] = engine
        return engine


def most_at(engine: Engine, config: GatewayConfig) -> int | None:
    """Return how many requests a replica is sent at once; None: any."""
    most = engine.endpoint.concurrency
    return config.replica_requests if most is None else most


def _same_place(one: Endpoint, other: Endpoint) -> bool:
    return _place(one) == _place(other)


def _place(one: Endpoint) -> tuple[object, ...]:
    return (one.host, one.port, one.tls, one.base_path, one.key, one.served_name, one.is_outside)


@cache
def _trusted() -> ssl.SSLContext:
    """Return what engines and providers are spoken to with over TLS: this machine's authorities."""
    return ssl.create_default_context()
