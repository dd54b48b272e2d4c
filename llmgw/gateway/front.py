"""What each request of a worker gets: a refusal, the gateway's own answer, or an engine."""

import asyncio
import json
import random
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.gateway import models
from llmgw.gateway.accounting import Account, Books
from llmgw.gateway.admission.gate import Gate
from llmgw.gateway.admission.quota import Charge, Quota
from llmgw.gateway.auth import Holder, KeyRing
from llmgw.gateway.cells import Cells
from llmgw.gateway.door import Door, TurnedAway
from llmgw.gateway.frames import Standing, TableFrame
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.paths import API, HEALTH, MODELS, SERVED, path_of, unknown
from llmgw.gateway.prefixes import private
from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.bodies import Bodies
from llmgw.gateway.proxy.client import ClientConnection
from llmgw.gateway.proxy.connecting import Connecting, Done
from llmgw.gateway.proxy.deadlines import Deadlines
from llmgw.gateway.proxy.endpoints import Engine, Engines, Way, shared
from llmgw.gateway.proxy.exchange import Exchange
from llmgw.gateway.proxy.forms import read_asked
from llmgw.gateway.proxy.means import Client, Task
from llmgw.gateway.proxy.newest import newest, stand_in
from llmgw.gateway.proxy.replies import refusal_reply, whole_reply
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.proxy.streams import Streams
from llmgw.gateway.proxy.turn import Turn
from llmgw.gateway.refusals import Refusal, system_stopped
from llmgw.gateway.route.prefix import PrefixTable
from llmgw.gateway.table import default_config
from llmgw.model.gateway import EngineLoads

log = get(__name__)

TOO_MANY = 429
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
        prefixes: who holds which prompts, shared with the other workers; None: not shared.
        keys: what keys used, shared with the other workers; None: not shared.
        connections: how many clients' connections there may be at once; None: any number.
        bodies: how many bytes of requests' bodies may be held; None: as many as anywhere.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        cells: Cells,
        prefix: str,
        on_engine_down: Callable[[str, str], None],
        on_held: Callable[[dict[str, int]], None],
        prefixes: PrefixTable | None = None,
        keys: KeyCells | None = None,
        connections: int | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._rng = rng
        self._on_engine_down = on_engine_down
        self._engines = Engines(cells, self._loop.time)
        self._quota = Quota(keys or KeyCells.private(), clock.monotonic)
        self.prefixes = prefixes or private()
        self._on_held = on_held
        self._held_told: dict[str, int] = {}
        self.books = Books()
        self.bodies = bodies or Bodies()
        self.deadlines = Deadlines(self._loop.time)
        self.streams = Streams()
        self.gate = Gate(
            self.books, cells, self._loop.time, self._loop.call_later, self._held_changed
        )
        self._ways: dict[str, Way] = {}
        self._ring = KeyRing()
        self._config = default_config()
        self._prefix = prefix.encode()
        self._numbers = 0
        self._connecting = Connecting()
        self._started = int(clock.now())
        """When this worker began to list models."""
        self.door = Door(self, self.books, connections, self._request_id)
        self.connections = self.door.inside
        self.draining = False
        self.leaving = False

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
            self._ring.put(key, frame.key_columns.get(key.id))
        if frame.config is not None:
            self._config = frame.config
            self.bodies.allow(frame.config.held_bytes)
        self._ring.stand(frame)
        if frame.listing or frame.routes or frame.gone_routes:
            self._engines.keep(self._ways.values())
        self.gate.take(self._ways, self._config)

    def take_loads(self, told: EngineLoads) -> None:
        """Take what engines say that they have to do."""
        self._engines.take_loads(told)

    def tidy(self) -> None:
        """Act on deadlines that passed and close what was idle for long."""
        now = self.deadlines.now()
        self.streams.look(now)
        self.deadlines.look()
        self._tell_held()
        self.gate.tell()
        self._engines.look(now)
        self.door.look(now)

    @property
    def standing(self) -> Standing:
        """Return how replicas were at the last look."""
        return self._engines.standing

    def connection(self) -> ClientConnection | TurnedAway:
        """Return the protocol of a new client's connection."""
        return self.door.connection()

    def begin_draining(self) -> None:
        """Close what is idle; every other connection ends with the reply that it carries."""
        self.draining = True
        for connection in tuple(self.connections):
            connection.end_if_idle()

    async def close(self) -> None:
        """Break what is left and give up connecting."""
        for connection in tuple(self.connections):
            connection.cut()
        await self._connecting.close()
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
        self.door.opened(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Note that it is gone."""
        self.door.closed(connection)

    def check_head(self, request: Request) -> Refusal | None:
        """Say whether a request is refused before its body is read."""
        path = request.path = path_of(request.target)
        if not path.startswith(API):
            if path == HEALTH and request.method in {"GET", "HEAD"}:
                return None
            return unknown(request)
        holder = self._ring.check(request.headers.get(b"authorization"), self._clock.now())
        if isinstance(holder, Refusal):
            return holder
        request.holder = holder
        if request.method == "POST":
            if self._config.stopped:
                return system_stopped()
            return self._over_quota(request, holder) if path in SERVED else unknown(request)
        if request.method == "GET" and (path == MODELS or path.startswith(MODELS + b"/")):
            return None
        return unknown(request)

    def serve(self, connection: ClientConnection, request: Request) -> Exchange | Turn | None:
        """Answer a request at once (None) or begin to serve it; it may be refused already."""
        request_id = self._request_id()
        try:
            return self._serve(connection, request, request_id)
        except Exception as error:  # noqa: BLE001 (it costs this request alone)
            refusal = faults.note(error, "answer a request")
            self.books.answered(refusal.status)
            self.books.failed(refusal.code)
            connection.refuse(refusal, request_id)
            return None

    def _serve(
        self, connection: ClientConnection, request: Request, request_id: bytes
    ) -> Exchange | Turn | None:
        holder = request.holder
        if request.refusal is not None:
            self._refuse(connection, request.refusal, request, request_id)
        elif holder is None:
            self._answer(connection, request, request_id, *self._ring.health())
        elif request.method == "GET":
            self._list(connection, request, request_id, holder)
        else:
            return self._forward(connection, request, request_id, holder)
        return None

    # Answers.

    def _forward(
        self, connection: ClientConnection, request: Request, request_id: bytes, holder: Holder
    ) -> Exchange | Turn | None:
        task = self._task(request, request_id, holder)
        if isinstance(task, Refusal):
            self._refuse(connection, task, request, request_id)
            return None
        way = task.way
        account = self._account(request, holder, way)
        try:
            return self._send(connection, task, account, holder)
        except Exception as error:  # noqa: BLE001 (it costs this request alone)
            refusal = faults.note(error, "serve a request")
            if account.is_open:
                account.note_error(refusal.code)
                account.refused(refusal.status, self.deadlines.now())
                connection.refuse(refusal, request_id)
            return None

    def _send(
        self, connection: ClientConnection, task: Task, account: Account, holder: Holder
    ) -> Exchange | Turn | None:
        if holder.column is not None:
            task.request.lines = self._quota.lines(holder.column, holder.key)
        if not self.gate.lets_on(task.way):
            return self._wait(connection, task, account, holder)
        going = self.gate.began(task.way, holder.id)
        if going is not None:
            account.also(going)
        exchange = Exchange(self, connection, task, account)
        exchange.start()
        return exchange

    def _task(self, request: Request, request_id: bytes, holder: Holder) -> Task | Refusal:
        asked = read_asked(request)
        if isinstance(asked, Refusal):
            return asked
        way = models.find(self._ways, asked.model, holder)
        if isinstance(way, Refusal):
            return way
        # Asked again: others were let on while the body came, or the system was stopped.
        refusal = self._over_quota(request, holder)
        if refusal is not None:
            return refusal
        if self._config.stopped:
            return system_stopped()
        if way.splits:
            way = shared(way, self._ways, self.below)
        return Task(request, request_id, asked, way, self._config)

    def _account(self, request: Request, holder: Holder, way: Way) -> Account:
        size = len(request.body)
        charged: tuple[Charge, ...] = ()
        if holder.column is not None:
            charged = (self._quota.admit(holder.column, size),)
        return self.books.open(holder.id, way.model, size, self.deadlines.now(), charged)

    def _wait(
        self, connection: ClientConnection, task: Task, account: Account, holder: Holder
    ) -> Turn | None:
        """Let a request wait until its model has room, or is started."""
        turn = Turn(connection, task, account, self, lambda to: self._after(to, task, account))
        config, full = task.config, bool(task.way.engines)
        most = config.queue_most if full else config.held_most
        seat = self.gate.wait(turn, task.way, holder.key, most)
        if isinstance(seat, Refusal):
            turn.give_up(seat)
            return turn if turn.goes_on else None
        turn.wait(seat, config.queue_for if full else config.held_for)
        return turn

    def _after(self, client: Client, task: Task, account: Account) -> Exchange:
        """Return the exchange of a request that waited; its key may have ended meanwhile."""
        found = self._ring.check(task.request.headers.get(b"authorization"), self._clock.now())
        task.refusal = models.refused(task.asked.model, found)
        return Exchange(self, client, task, account)

    def _over_quota(self, request: Request, holder: Holder) -> Refusal | None:
        """Return why a key's limits refuse a request."""
        column = holder.column
        if column is None or not self._quota.reached(column):
            return None
        request.lines = self._quota.lines(column, holder.key)
        return self._quota.refusal(column, holder.key)

    def _list(
        self, connection: ClientConnection, request: Request, request_id: bytes, holder: Holder
    ) -> None:
        name = unquote_to_bytes(request.path[len(MODELS) + 1 :]).decode("utf-8", "replace")
        if not name:
            value = models.listed(self._ways, holder, self._started)
            self._answer(connection, request, request_id, 200, value)
            return
        way = models.find(self._ways, name, holder)
        if isinstance(way, Refusal):
            self._refuse(connection, way, request, request_id)
        else:
            value = models.shown(way.model, self._started)
            self._answer(connection, request, request_id, 200, value)

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
        count = self.books.refused if refusal.status == TOO_MANY else self.books.failed
        count(refusal.code)
        connection.write(refusal_reply(refusal, request, request_id))
        connection.finish()

    def _request_id(self) -> bytes:
        self._numbers += 1
        return b"req-%b-%x" % (self._prefix, self._numbers)

    # What an exchange asks.

    def renew(self, task: Task) -> None:
        """Let a task go by the routes and settings of this moment."""
        task.config = self._config
        task.way = newest(task.way, task.asked.model, self._ways, self.below)

    def stand_in(self, task: Task) -> Way | None:
        """Return what stands in now for the model that was asked for; None: nothing can."""
        may = task.may_fall_back and not self._config.stopped
        return stand_in(task.asked.model, self._ways) if may else None

    def below(self, limit: int) -> int:
        """Return a random integer from 0 to below `limit`."""
        return self._rng.randrange(limit)

    def jitter(self) -> float:
        """Return a random number between 0 and 1."""
        return self._rng.random()

    def connect(self, engine: Engine, timeout: float, done: Done) -> Callable[[], object]:
        """Connect in the background and call `done`; the returned function gives it up."""
        return self._connecting.begin(engine, timeout, done)

    def engine_down(self, engine: Engine, words: str) -> None:
        """Tell the control plane that an engine could not be reached."""
        if engine.health.failures == 1:
            log.warning("an engine failed", replica=engine.endpoint.replica, words=words)
        self._on_engine_down(engine.endpoint.replica, words)

    def _held_changed(self) -> None:
        """Tell at once that a model is waited for, or that it is not any more; counts may wait."""
        if self.gate.counts().keys() != self._held_told.keys():
            self._tell_held()

    def _tell_held(self) -> None:
        counts = self.gate.counts()
        if counts != self._held_told:
            self._held_told = counts
            self._on_held(counts)
