"""The engines that a worker knows: their connections, what is in flight there, how they are."""

import asyncio
from collections.abc import Iterable, Mapping

from llmgw.base.log import get
from llmgw.gateway.cells import Cells
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.route.health import Health
from llmgw.model.gateway import Endpoint, Route

log = get(__name__)

IDLE_MOST = 16
"""Idle connections kept to one engine: llama-server holds a thread for each."""
IDLE_SECONDS = 4.0
"""Engines close idle connections after about 5 seconds; this is earlier."""


class Engine:
    """One endpoint of the table as this worker uses it."""

    __slots__ = (
        "_cells",
        "_head",
        "column",
        "endpoint",
        "gathers",
        "gone",
        "health",
        "idle",
        "last_resort",
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
        self._cells = cells
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        lines = f"host: {host}:{endpoint.port}\r\n"
        if endpoint.key is not None:
            lines += f"authorization: Bearer {endpoint.key}\r\n"
        self._head = lines.encode()

    def load(self) -> int:
        """Return what is in flight there, over all workers."""
        return self._cells.load(self.column)

    def entered(self) -> None:
        """Count a request, at the moment it is sent there."""
        self._cells.add(self.column, 1)
        self.health.chosen()

    def left(self) -> None:
        """Count it no longer."""
        self._cells.add(self.column, -1)

    def stops_gathering(self) -> None:
        """Ask it for whole answers from now on: its stream has something unknown in it."""
        if self.gathers:
            self.gathers = False
            log.warning("answers are not gathered from this engine", replica=self.endpoint.replica)

    def head(self, path: bytes, lines: bytes, length: int) -> bytes:
        """Return a request's head: the engine's own key, and of the client's head only `lines`."""
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
                EngineConnection, self.endpoint.host, self.endpoint.port
            )
        return connection


class Way:
    """A route as this worker uses it."""

    __slots__ = ("engines", "holds", "model", "reason", "wanted")

    def __init__(self, route: Route, engines: tuple[Engine, ...]) -> None:
        self.model = route.model
        self.wanted = route.wanted
        self.reason = route.reason
        self.holds = route.holds
        self.engines = engines


class Engines:
    """All of them, by replica: a route that comes again keeps the connections and the health."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._by_replica: dict[str, Engine] = {}

    def way(self, route: Route, columns: Mapping[str, int]) -> Way:
        """Return a route with its engines; `columns` names the cells' column of each replica."""
        engines = (self._engine(one, columns[one.replica]) for one in route.endpoints)
        return Way(route, tuple(engines))

    def keep(self, ways: Iterable[Way]) -> None:
        """Close the idle connections to engines that no route has any more."""
        kept = {engine for way in ways for engine in way.engines}
        for replica, engine in list(self._by_replica.items()):
            if engine not in kept:
                engine.gone = True
                engine.close_idle(float("inf"))
                del self._by_replica[replica]

    def close_idle(self, now: float) -> None:
        """Close what has been idle for long."""
        for engine in self._by_replica.values():
            engine.close_idle(now - IDLE_SECONDS)

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


def _same_place(one: Endpoint, other: Endpoint) -> bool:
    return (one.host, one.port, one.key, one.served_name) == (
        other.host,
        other.port,
        other.key,
        other.served_name,
    )
