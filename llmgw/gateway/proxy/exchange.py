"""One request on its way to an engine and its reply on the way back."""

from collections.abc import Callable

from llmgw.gateway.accounting import Account
from llmgw.gateway.proxy.body import (
    ask_for_progress,
    ask_for_stream,
    ask_for_usage,
    rename_model,
    wants_usage,
)
from llmgw.gateway.proxy.client import ClientConnection
from llmgw.gateway.proxy.deadlines import NEVER
from llmgw.gateway.proxy.endpoints import Engine, Way
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.events import EventStream
from llmgw.gateway.proxy.gathered import CHAT, JSON, GatheredReply, can_be_gathered
from llmgw.gateway.proxy.held import RETRY_AFTER
from llmgw.gateway.proxy.means import Means, Task
from llmgw.gateway.proxy.replies import Framing, passed_on
from llmgw.gateway.proxy.usage import WholeReply
from llmgw.gateway.refusals import Refusal, error_event, quoted
from llmgw.gateway.route.choice import least_loaded, open_endpoints, soonest
from llmgw.model.catalog import LLAMACPP

TRIES = 3
"""Engines that one request is sent to at most: one that kills engines may not kill them all."""
LOADING = 503
"""What an engine answers that is still loading, or full: another may be ready."""


class Exchange:
    """Chooses an engine, sends, passes the reply on, accounts for it. Ends exactly once.

    Until the first byte of a reply's body nothing is written to the client, and the request can go
    to another engine unseen. After it the reply ends whole, or visibly broken.
    """

    __slots__ = (
        "_account",
        "_as_written",
        "_body",
        "_client",
        "_connection",
        "_engine",
        "_events",
        "_framing",
        "_gathers",
        "_give_up",
        "_hides_progress",
        "_hides_usage",
        "_lines",
        "_means",
        "_paused",
        "_reply",
        "_sent",
        "_started",
        "_status",
        "_task",
        "_tried",
    )

    _reply: EventStream | GatheredReply | WholeReply

    def __init__(
        self, means: Means, client: ClientConnection, task: Task, account: Account
    ) -> None:
        self._means = means
        self._client = client
        self._task = task
        self._account = account
        self._hides_usage = task.asked.stream is True and not wants_usage(task.asked)
        self._hides_progress = False
        self._gathers = False
        self._as_written = False
        self._body: bytes = task.request.body
        self._sent: bytes = b""
        self._lines = _lines(task)
        self._tried: list[Engine] = []
        self._engine: Engine | None = None
        self._connection: EngineConnection | None = None
        self._give_up: Callable[[], object] | None = None
        self._framing: Framing | None = None
        self._reply = WholeReply()
        self._status = 0
        self._events = False
        self._started = False
        self._paused = False

    def start(self) -> None:
        """Send the request to an engine, or refuse it."""
        if self._hides_usage:
            body = ask_for_usage(self._body, self._task.asked)
            if isinstance(body, Refusal):
                self._refuse(body)
                return
            self._body = body
        self._try_next()

    # What the client's connection calls.

    def client_left(self) -> None:
        """Take the request from the engine at once: nobody reads the reply."""
        self._let_go()
        self._account.cancelled(*self._so_far())

    def pause(self) -> None:
        """Let the engine wait for a client that reads slowly, but not for ever."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()
            self._set_deadline(self._task.config.idle_timeout)

    def resume(self) -> None:
        """Let the engine go on."""
        self._paused = False
        if self._connection is not None:
            self._connection.resume()
            config = self._task.config
            self._set_deadline(config.idle_timeout if self._started else config.first_byte_timeout)

    def expired(self) -> None:
        """End what takes too long."""
        if self._paused:
            self.client_left()
            self._client.abort()
        elif self._started:
            self._end_broken("engine_timeout", "the engine sent nothing more for too long")
        elif self._engine is None:
            words = f"it was not started within {self._task.config.held_for:g} s"
            model = quoted(self._task.way.model)
            self._refuse(Refusal("no_replica", f"model {model}: {words}", "model", RETRY_AFTER))
        else:
            self._refuse(Refusal("engine_timeout", "the engine did not answer in time"))

    def stopped(self) -> None:
        """End now, in a way that the client can tell from a whole reply."""
        words = "the gateway is being stopped"
        if self._started:
            self._end_broken("gateway_stopping", words)
        else:
            self._refuse(Refusal("gateway_stopping", words, None, 1))

    # What is said to a request that is held.

    def go_on(self, way: Way) -> None:
        """Go to an engine of the model that was waited for."""
        self._task.way = way
        self._try_next()

    def give_up(self, refusal: Refusal) -> None:
        """Answer that the model could not be had."""
        self._refuse(refusal)

    # Choosing and sending.

    def _try_next(self) -> None:
        way = self._task.way
        if way.holds and not way.engines and self._hold(way):
            return
        open_now = self._open_engines()
        engine = least_loaded(open_now, Engine.load, self._means.below)
        if engine is None:
            self._refuse(self._nobody())
            return
        if self._tried:
            self._account.retried()
        self._tried.append(engine)
        self._engine = engine
        engine.entered()
        body = self._body_for(engine)
        if isinstance(body, Refusal):
            self._refuse(body)
            return
        self._sent = body
        connection = engine.take_idle()
        if connection is None:
            self._connect(engine)
        else:
            self._send(engine, connection)

    def _hold(self, way: Way) -> bool:
        """Wait until the model is started; False: too many wait for it."""
        config = self._task.config
        if not self._means.held.hold(self, way.model, config.held_most):
            return False
        self._set_deadline(config.held_for)
        return True

    def _open_engines(self) -> list[Engine]:
        if len(self._tried) >= TRIES:
            return []
        now = self._means.deadlines.now()
        return open_endpoints(self._task.way.engines, self._tried, now)

    def _nobody(self) -> Refusal:
        way = self._task.way
        model = quoted(way.model)
        if not way.engines:
            words = way.reason or "no replica is ready"
            if way.holds:
                words = f"{words}; {self._task.config.held_most} requests wait for it already"
            return Refusal("no_replica", f"model {model}: {words}", "model", RETRY_AFTER)
        seen = self._tried[-1] if self._tried else way.engines[0]
        words = f"model {model}: no replica could be reached: {seen.health.words}"
        wait = soonest(way.engines, self._means.deadlines.now())
        return Refusal("engine_unreachable", words, "model", round(wait + 0.5))

    def _body_for(self, engine: Engine) -> bytes | Refusal:
        asked = self._task.asked
        body: bytes | Refusal = self._body
        name = engine.endpoint.served_name
        if name is not None and name != asked.model:
            body = rename_model(self._body, asked, name)
        llamacpp = engine.endpoint.engine == LLAMACPP
        self._hides_progress = llamacpp and bool(asked.stream) and not asked.return_progress
        path = self._task.request.path
        gathers = llamacpp and engine.gathers and not self._as_written
        self._gathers = gathers and can_be_gathered(path, asked)
        if isinstance(body, Refusal):
            return body
        if self._hides_progress:
            body = ask_for_progress(body)
        return ask_for_stream(body) if self._gathers else body

    def _connect(self, engine: Engine) -> None:
        self._set_deadline(None)  # connecting has a timeout of its own
        self._give_up = self._means.connect(
            engine, self._task.config.connect_timeout, self._connected
        )

    def _connected(self, connection: EngineConnection | None, words: str) -> None:
        self._give_up = None
        engine = self._engine
        if engine is None:
            return
        if connection is None or not connection.usable:
            self._failed(engine, words or "the engine closed the connection at once")
        else:
            self._send(engine, connection)

    def _send(self, engine: Engine, connection: EngineConnection) -> None:
        self._connection = connection
        self._set_deadline(self._task.config.first_byte_timeout)
        head = engine.head(self._task.request.path, self._lines, len(self._sent))
        connection.send(self, head, self._sent)
        if self._paused:
            connection.pause()

    def _failed(self, engine: Engine, words: str, *, answers: bool = False) -> None:
        """Take the engine out of choice for a while and go on to another.

        Args:
            engine: the one that the request was sent to.
            words: how it failed.
            answers: it is there, and said no.
        """
        engine.health.failed(self._means.deadlines.now(), self._means.jitter(), words)
        if not answers:
            self._means.engine_down(engine, words)
        self._let_go()
        self._framing = None
        self._reply = WholeReply()
        self._try_next()

    # What the engine's connection calls.

    def reply_head(
        self, status: int, headers: list[tuple[bytes, bytes]], length: int | None
    ) -> None:
        """Look at the head; it is written together with the first byte of the body."""
        engine = self._engine
        if engine is None:
            return
        if status == LOADING:
            if self._open_engines():
                words = "the engine answers 503: it is loading, or full"
                self._failed(engine, words, answers=True)
                return
        else:
            engine.health.worked()
        self._status = status
        lines = passed_on(headers)
        if status == LOADING and b"retry-after:" not in lines.lower():
            lines += b"retry-after: 2\r\n"
        self._events = _is_event_stream(headers)
        if self._events and self._gathers:
            self._events = False
            self._reply = GatheredReply(chat=self._task.request.path == CHAT)
            lines = JSON
        elif self._events:
            self._reply = EventStream(
                hide_usage=self._hides_usage, hide_progress=self._hides_progress
            )
            length = None  # an event may be taken out
        self._framing = Framing(status, lines, length, self._task.request, self._task.request_id)

    def reply_body(self, data: bytes, *, last: bool) -> None:
        """Pass a piece of the body on."""
        framing = self._framing
        if framing is None:
            return
        out = self._reply.feed(data)
        if last:
            out += self._reply.rest()
        if isinstance(self._reply, GatheredReply):
            if self._reply.failed:
                self._ask_as_written(strange=self._reply.strange)
                return
            framing = self._framed_whole(out)
        if last:
            self._finish(framing, out)
            return
        if out:
            out = framing.piece(out, last=False)
            if not self._started:
                out = self._begin(framing) + out
            self._client.write(out)
            if self._events:
                self._account.progress(self._reply.produced)
        if not self._paused and (self._started or self._is_gathering):
            self._set_deadline(self._task.config.idle_timeout)

    def reply_broken(self, words: str, *, untouched: bool) -> None:
        """Go to another engine while nothing was written; else end the reply as broken."""
        connection, self._connection = self._connection, None
        engine = self._engine
        if engine is None:
            return
        if self._started:
            self._end_broken("engine_failed", words)
        elif untouched and connection is not None and connection.reused:
            # The engine closed an idle connection just when it was used: that says nothing of it.
            self._connect(engine)
        else:
            self._failed(engine, words)

    # Gathering.

    @property
    def _is_gathering(self) -> bool:
        return isinstance(self._reply, GatheredReply)

    def _framed_whole(self, answer: bytes) -> Framing:
        """Return the framing of a gathered answer, which has a length as a whole one has."""
        task = self._task
        return Framing(self._status, JSON, len(answer), task.request, task.request_id)

    def _ask_as_written(self, *, strange: bool) -> None:
        """Send the request to the same engine again, as one that wants no stream.

        Args:
            strange: the engine streams what is not known here, and would do so again.
        """
        engine, connection = self._engine, self._connection
        if engine is None:
            return
        self._as_written = True
        if strange:
            engine.stops_gathering()
        self._connection = None
        if connection is not None:
            connection.drop()
        self._framing = None
        self._reply = WholeReply()
        body = self._body_for(engine)
        if isinstance(body, Refusal):
            self._refuse(body)
            return
        self._sent = body
        self._connect(engine)

    # Ending.

    def _begin(self, framing: Framing) -> bytes:
        """Note that the reply begins: from here on it cannot go to another engine."""
        self._started = True
        self._body = self._sent = self._task.request.body = b""
        if self._events:
            self._account.first_byte(self._means.deadlines.now())
        return framing.head

    def _finish(self, framing: Framing, out: bytes) -> None:
        """End a whole reply."""
        out = framing.piece(out, last=True)
        if not self._started:
            out = self._begin(framing) + out
        if out:
            self._client.write(out)
        now = self._means.deadlines.now()
        self._account.finished(self._status, self._reply.usage, self._reply.produced, now)
        connection, self._connection = self._connection, None
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.left()
            engine.health.released()
            if connection is not None:
                if self._paused:
                    connection.resume()
                engine.give_back(connection, now)
        self._client.finish(keep=not framing.to_the_end)

    def _end_broken(self, code: str, words: str) -> None:
        """End a reply that began and will not be whole, so that the client can tell."""
        self._let_go()
        self._account.broken(*self._so_far())
        framing = self._framing
        if framing is not None and self._events:
            self._client.write(framing.piece(error_event(code, words), last=True))
            self._client.finish(keep=False)
        else:
            self._client.abort()

    def _refuse(self, refusal: Refusal) -> None:
        """End with a refusal; nothing of a reply was written."""
        self._let_go()
        self._account.refused(refusal.status, self._means.deadlines.now())
        self._client.refuse(refusal, self._task.request_id)

    def _let_go(self) -> None:
        """Leave the engine, whatever it is doing for this request, or the queue."""
        self._means.held.leave(self, self._task.way.model)
        give_up, self._give_up = self._give_up, None
        if give_up is not None:
            give_up()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.left()
            engine.health.released()

    def _so_far(self) -> tuple[int | None, int, float]:
        now = self._means.deadlines.now()
        if self._started or (self._is_gathering and self._reply.produced):
            return self._status, self._reply.produced, now
        return None, 0, now

    def _set_deadline(self, seconds: float | None) -> None:
        self._client.deadline = NEVER if seconds is None else self._means.deadlines.after(seconds)


def _lines(task: Task) -> bytes:
    """Return the lines that an engine gets of a client's head: what the body is, and our own id."""
    request = task.request
    lines = b"x-request-id: %b\r\ncontent-type: %b\r\n" % (
        task.request_id,
        request.headers.get(b"content-type", b"application/json"),
    )
    if b"accept" in request.headers:
        lines += b"accept: %b\r\n" % request.headers[b"accept"]
    return lines


def _is_event_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
        for name, value in headers
    )
