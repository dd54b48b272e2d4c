"""What each request of a worker gets: a refusal, the gateway's own answer, or an engine."""

import asyncio
import json
import random
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

import httptools

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.gateway.accounting import Books
from llmgw.gateway.auth import Holder, KeyRing
from llmgw.gateway.cells import Cells
from llmgw.gateway.frames import TableFrame
from llmgw.gateway.proxy.body import read_body
from llmgw.gateway.proxy.client import ClientConnection
from llmgw.gateway.proxy.deadlines import Deadlines
from llmgw.gateway.proxy.endpoints import Engine, Engines, Way
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.exchange import Exchange
from llmgw.gateway.proxy.held import Held
from llmgw.gateway.proxy.means import Task
from llmgw.gateway.proxy.replies import refusal_reply, whole_reply
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import Refusal, quoted
from llmgw.gateway.table import default_config

log = get(__name__)

HEALTH = b"/healthz"
API = b"/v1/"
MODELS = b"/v1/models"
SERVED = frozenset({b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"})
"""Paths that reach an engine. No other does, whatever an engine would answer to."""
_JSON = b"content-type: application/json\r\n"


class Front:
    """One worker's table, connections and engines.

    Args:
        clock: for the wall clock alone (keys end by it).
        rng: breaks ties and spreads probes.
        cells: requests in flight, shared with the other workers.
        prefix: what request ids of this worker begin with.
        on_engine_down: told a replica and the words when an engine cannot be reached.
        on_held: told how many requests wait for each model, when that changes.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        cells: Cells,
        prefix: str,
        on_engine_down: Callable[[str, str], None],
        on_held: Callable[[dict[str, int]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._rng = rng
        self._on_engine_down = on_engine_down
        self._engines = Engines(cells)
        self._on_held = on_held
        self._held_told: dict[str, int] = {}
        self.held = Held(self._held_changed)
        self._ways: dict[str, Way] = {}
        self._ring = KeyRing()
        self._config = default_config()
        self._prefix = prefix.encode()
        self._numbers = 0
        self._connecting: set[asyncio.Task[None]] = set()
        self._started = int(clock.now())
        self.books = Books()
        self.deadlines = Deadlines(self._loop.time)
        self.connections: set[ClientConnection] = set()
        self.draining = False

    def take(self, frame: TableFrame) -> None:
        """Take a new table, or what changed of it."""
        if frame.listing:
            self._ways.clear()
            self._ring.replace(())
        for name in frame.gone_routes:
            self._ways.pop(name, None)
        for route in frame.routes:
            self._ways[route.model] = self._engines.way(route, frame.columns)
        for key_id in frame.gone_keys:
            self._ring.remove(key_id)
        for key in frame.keys:
            self._ring.put(key)
        if frame.config is not None:
            self._config = frame.config
        self._ring.received, self._ring.current = frame.received, frame.current
        if frame.listing or frame.routes or frame.gone_routes:
            self._engines.keep(self._ways.values())
        self.held.look(self._ways, stopped=self._config.stopped)

    def tidy(self) -> None:
        """Act on deadlines that passed and close what was idle for long."""
        self.deadlines.look()
        self._tell_held()
        self._engines.close_idle(self.deadlines.now())

    def connection(self) -> ClientConnection:
        """Return the protocol of a new client's connection."""
        return ClientConnection(self)

    def begin_draining(self) -> None:
        """Close what is idle; every other connection ends with the reply that it carries."""
        self.draining = True
        for connection in tuple(self.connections):
            connection.end_if_idle()

    async def close(self) -> None:
        """Break what is left and give up connecting."""
        for connection in tuple(self.connections):
            connection.cut()
        for task in tuple(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._ways.clear()
        self._engines.keep(())

    # What a client's connection asks.

    @property
    def client_timeout(self) -> float:
        """Return the seconds that a client has to send a request, or to send none."""
        return self._config.client_timeout

    @property
    def body_most(self) -> int:
        """Return the bytes that a request's body may have."""
        return self._config.request_body_bytes

    def opened(self, connection: ClientConnection) -> None:
        """Note a connection that is there."""
        self.connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Note that it is gone."""
        self.connections.discard(connection)

    def check_head(self, request: Request) -> Refusal | None:
        """Say whether a request is refused before its body is read."""
        path = request.path = _path(request.target)
        if not path.startswith(API):
            if path == HEALTH and request.method in {"GET", "HEAD"}:
                return None
            return _unknown(request)
        holder = self._ring.check(request.headers.get(b"authorization"), self._clock.now())
        if isinstance(holder, Refusal):
            return holder
        request.holder = holder
        if request.method == "POST":
            if self._config.stopped:
                words = "an operator has stopped serving on this system"
                return Refusal("system_stopped", words, None, 30)
            return None if path in SERVED else _unknown(request)
        if request.method == "GET" and (path == MODELS or path.startswith(MODELS + b"/")):
            return None
        return _unknown(request)

    def serve(self, connection: ClientConnection, request: Request) -> Exchange | None:
        """Answer a request at once (None) or begin to serve it; it may be refused already."""
        request_id = self._request_id()
        holder = request.holder
        if request.refusal is not None:
            self._refuse(connection, request.refusal, request, request_id)
        elif holder is None:
            self._answer(connection, request, request_id, *self._health())
        elif request.method == "GET":
            self._list(connection, request, request_id, holder)
        else:
            return self._forward(connection, request, request_id, holder)
        return None

    # Answers.

    def _forward(
        self, connection: ClientConnection, request: Request, request_id: bytes, holder: Holder
    ) -> Exchange | None:
        asked = read_body(request.body)
        if isinstance(asked, Refusal):
            self._refuse(connection, asked, request, request_id)
            return None
        way = self._find(asked.model, holder)
        if isinstance(way, Refusal):
            self._refuse(connection, way, request, request_id)
            return None
        now = self.deadlines.now()
        account = self.books.open(holder.id, way.model, len(request.body), now)
        task = Task(request, request_id, asked, way, self._config)
        exchange = Exchange(self, connection, task, account)
        exchange.start()
        return exchange

    def _find(self, model: str, holder: Holder) -> Way | Refusal:
        if not holder.may_use(model):
            words = f"the API key may not use the model {quoted(model)}"
            return Refusal("model_not_allowed", words, "model")
        way = self._ways.get(model)
        if way is None:
            return Refusal("model_not_found", f"the model {quoted(model)} does not exist", "model")
        return way

    def _list(
        self, connection: ClientConnection, request: Request, request_id: bytes, holder: Holder
    ) -> None:
        name = unquote_to_bytes(request.path[len(MODELS) + 1 :]).decode("utf-8", "replace")
        if not name:
            shown = [self._shown(model) for model in sorted(self._ways) if holder.may_use(model)]
            self._answer(connection, request, request_id, 200, {"object": "list", "data": shown})
            return
        way = self._find(name, holder)
        if isinstance(way, Refusal):
            self._refuse(connection, way, request, request_id)
        else:
            self._answer(connection, request, request_id, 200, self._shown(way.model))

    def _shown(self, model: str) -> dict[str, object]:
        # OpenAI's `created` has to be a number: it is when this worker began to list models.
        return {"id": model, "object": "model", "created": self._started, "owned_by": "llmgw"}

    def _health(self) -> tuple[int, dict[str, object]]:
        if not self._ring.received:
            return 503, {"status": "no_table"}
        return 200, {"status": "ok", "control_plane": "here" if self._ring.current else "away"}

    def _answer(
        self,
        connection: ClientConnection,
        request: Request,
        request_id: bytes,
        status: int,
        value: dict[str, object],
    ) -> None:
        if request.path != HEALTH:
            self.books.answered(status)
        body = json.dumps(value, separators=(",", ":")).encode()
        connection.write(whole_reply(status, _JSON, body, request, request_id))
        connection.finish()

    def _refuse(
        self, connection: ClientConnection, refusal: Refusal, request: Request, request_id: bytes
    ) -> None:
        self.books.answered(refusal.status)
        connection.write(refusal_reply(refusal, request, request_id))
        connection.finish()

    def _request_id(self) -> bytes:
        self._numbers += 1
        return b"req-%b-%x" % (self._prefix, self._numbers)

    # What an exchange asks.

    def below(self, limit: int) -> int:
        """Return a random integer from 0 to below `limit`."""
        return self._rng.randrange(limit)

    def jitter(self) -> float:
        """Return a random number between 0 and 1."""
        return self._rng.random()

    def connect(
        self,
        engine: Engine,
        timeout: float,
        done: Callable[[EngineConnection | None, str], None],
    ) -> Callable[[], object]:
        """Connect in the background and call `done`; the returned function gives it up."""
        task = self._loop.create_task(self._connect(engine, timeout, done))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return task.cancel

    def engine_down(self, engine: Engine, words: str) -> None:
        """Tell the control plane that an engine could not be reached."""
        if engine.health.failures == 1:
            log.warning("an engine failed", replica=engine.endpoint.replica, words=words)
        self._on_engine_down(engine.endpoint.replica, words)

    def _held_changed(self) -> None:
        """Tell at once that a model is waited for, or that it is not any more; counts may wait."""
        if self.held.counts().keys() != self._held_told.keys():
            self._tell_held()

    def _tell_held(self) -> None:
        counts = self.held.counts()
        if counts != self._held_told:
            self._held_told = counts
            self._on_held(counts)

    async def _connect(
        self,
        engine: Engine,
        timeout: float,
        done: Callable[[EngineConnection | None, str], None],
    ) -> None:
        try:
            connection = await engine.connect(timeout)
        except TimeoutError:
            done(None, f"no connection within {timeout:g} s")
        except OSError as error:
            done(None, f"no connection: {error.strerror or error}")
        else:
            done(connection, "")


def _path(target: bytes) -> bytes:
    """Return the path of a target, without the query, which no engine gets."""
    if target in SERVED:
        return target
    try:
        return httptools.parse_url(target).path or b"/"
    except httptools.HttpParserInvalidURLError:
        return b""


def _unknown(request: Request) -> Refusal:
    what = quoted(f"{request.method} {request.target.decode('latin-1')}")
    return Refusal("unknown_path", f"{what} is not served by this gateway")
