"""One request on its way to an engine and its reply on the way back."""

from collections.abc import Callable

from llmgw.gateway.accounting import Account
from llmgw.gateway.proxy.client import ClientConnection
from llmgw.gateway.proxy.deadlines import NEVER
from llmgw.gateway.proxy.endpoints import Engine, Way
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.events import EventStream
from llmgw.gateway.proxy.gathered import CHAT, JSON, GatheredReply
from llmgw.gateway.proxy.held import RETRY_AFTER
from llmgw.gateway.proxy.means import Means, Task
from llmgw.gateway.proxy.outgoing import Outgoing
from llmgw.gateway.proxy.replies import Framing, is_event_stream, passed_on
from llmgw.gateway.proxy.tries import Tries
from llmgw.gateway.proxy.usage import WholeReply
from llmgw.gateway.refusals import Refusal, error_event, quoted

LOADING = 503
"""What an engine answers that is still loading, or full: another may be ready."""


class Exchange:
    """Chooses an engine, sends, passes the reply on, accounts for it. Ends exactly once.

    Until the first byte of a reply's body nothing is written to the client, and the request can go
    to another engine unseen. After it the reply ends whole, or visibly broken.
    """

    __slots__ = (
        "_account",
        "_client",
        "_connection",
        "_engine",
        "_events",
        "_framing",
        "_give_up",
        "_means",
        "_outgoing",
        "_paused",
        "_reply",
        "_started",
        "_status",
        "_task",
        "_tries",
    )

    _reply: EventStream | GatheredReply | WholeReply

    def __init__(
        self, means: Means, client: ClientConnection, task: Task, account: Account
    ) -> None:
        self._means = means
        self._client = client
        self._task = task
        self._account = account
        self._outgoing = Outgoing(task)
        self._tries = Tries(means, task)
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
        refusal = self._outgoing.ask_for_usage()
        if refusal is not None:
            self._refuse(refusal)
            return
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
        engine = self._tries.choose()
        if engine is None:
            self._refuse(self._tries.nobody())
            return
        if self._tries.again:
            self._account.retried()
        self._engine = engine
        engine.entered()
        refusal = self._outgoing.write_for(engine)
        if refusal is not None:
            self._refuse(refusal)
            return
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
        connection.send(self, self._outgoing.head_for(engine), self._outgoing.body)
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
            if self._tries.open_now():
                words = "the engine answers 503: it is loading, or full"
                self._failed(engine, words, answers=True)
                return
        else:
            engine.health.worked()
        self._status = status
        lines = passed_on(headers)
        if status == LOADING and b"retry-after:" not in lines.lower():
            lines += b"retry-after: 2\r\n"
        self._events = is_event_stream(headers)
        if self._events and self._outgoing.gathers:
            self._events = False
            self._reply = GatheredReply(chat=self._task.request.path == CHAT)
            lines = JSON
        elif self._events:
            sent = self._outgoing
            self._reply = EventStream(
                hide_usage=sent.hides_usage, hide_progress=sent.hides_progress
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
        self._outgoing.keep_as_written()
        if strange:
            engine.stops_gathering()
        self._connection = None
        if connection is not None:
            connection.drop()
        self._framing = None
        self._reply = WholeReply()
        refusal = self._outgoing.write_for(engine)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._connect(engine)

    # Ending.

    def _begin(self, framing: Framing) -> bytes:
        """Note that the reply begins: from here on it cannot go to another engine."""
        self._started = True
        self._outgoing.drop()
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
