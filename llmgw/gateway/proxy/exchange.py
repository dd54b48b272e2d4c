"""One request on its way to an engine and its reply on the way back."""

from llmgw.gateway.accounting import Account
from llmgw.gateway.proxy import faults, outside
from llmgw.gateway.proxy.deadlines import NEVER
from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.events import EventStream
from llmgw.gateway.proxy.gathered import CHAT, JSON, GatheredReply
from llmgw.gateway.proxy.means import Client, Means, Task
from llmgw.gateway.proxy.replies import Framing, is_event_stream, passed_on
from llmgw.gateway.proxy.sending import Sending
from llmgw.gateway.proxy.usage import Usage, WholeReply
from llmgw.gateway.refusals import Refusal, error_event
from llmgw.model.live import CONNECTING, PREFILL, STREAMING

LOADING = 503
"""What an engine answers that is still loading, or full: another may be ready."""


class Exchange:
    """Has a request sent, passes the reply on, accounts for it. Ends exactly once.

    Until the first byte of a reply's body nothing is written to the client, and the request can go
    to another engine unseen. After it the reply ends whole, or visibly broken.
    """

    __slots__ = (
        "_account",
        "_client",
        "_events",
        "_flowing",
        "_framing",
        "_means",
        "_moved",
        "_paused",
        "_reply",
        "_sending",
        "_started",
        "_status",
        "_task",
    )

    _reply: EventStream | GatheredReply | WholeReply

    def __init__(self, means: Means, client: Client, task: Task, account: Account) -> None:
        self._means = means
        self._client = client
        self._task = task
        self._account = account
        self._sending = Sending(means, self, task, account)
        self._framing: Framing | None = None
        self._flowing: Framing | None = None
        """The same once the reply has begun: what comes is framed, written and nothing else."""
        self._moved = False
        """Something came since the last look."""
        self._reply = WholeReply()
        self._status = 0
        self._events = False
        self._started = False
        self._paused = False

    def start(self) -> None:
        """Send the request to an engine, or refuse it."""
        try:
            refusal = self._sending.prepare()
            if refusal is None:
                self._sending.next()
            else:
                self.cannot_be_sent(refusal)
        except Exception as error:  # noqa: BLE001 (it costs this request alone)
            self.fault(error)

    # What whoever looks at requests in flight asks.

    @property
    def live(self) -> "Exchange":
        """Return what the request has become."""
        return self

    @property
    def task(self) -> Task:
        """Return what it asks."""
        return self._task

    @property
    def account(self) -> Account:
        """Return its account."""
        return self._account

    @property
    def engine(self) -> Engine | None:
        """Return the engine that has it, or is about to get it."""
        return self._sending.engine

    @property
    def state(self) -> str:
        """Return how far it is, as one of `llmgw.model.live.STATES`."""
        if self._started or (self._is_gathering and self._reply.produced):
            return STREAMING
        return CONNECTING if self._sending.connection is None else PREFILL

    @property
    def tokens(self) -> int | None:
        """Return an estimate of what was produced so far; None: nothing tells."""
        return self._reply.produced if self._events or self._is_gathering else None

    def cancelled(self, refusal: Refusal) -> None:
        """End because an operator says so: what was produced is booked, the client is told."""
        answered = self._status if self._started else refusal.status
        self._let_go()
        self._account.note_error(refusal.code)
        self._account.ended(*self._so_far(), answered=answered)
        if self._started:
            self._break(refusal.code, refusal.message)
        else:
            self._client.refuse(refusal, self._task.request_id)

    # What the client's connection calls.

    def client_left(self) -> None:
        """Take the request from the engine at once: nobody reads the reply."""
        self._let_go()
        if self._account.is_open:  # else a fault has cut its end short
            self._account.cancelled(*self._so_far())

    def pause(self) -> None:
        """Let the engine wait for a client that reads slowly, but not for ever."""
        self._paused = True
        self._sending.pause()
        if self._sending.connection is not None:
            self.set_deadline(self._task.config.idle_timeout)

    def resume(self) -> None:
        """Let the engine go on."""
        self._paused = False
        self._sending.resume()
        if self._sending.connection is not None:
            config = self._task.config
            self.set_deadline(config.idle_timeout if self._started else config.first_byte_timeout)

    def expired(self) -> None:
        """End what takes too long."""
        if self._paused:
            self.client_left()
            self._client.abort()
        elif self._started:
            self._end_broken("engine_timeout", "the engine sent nothing more for too long")
        else:
            self.cannot_be_sent(Refusal("engine_timeout", "the engine did not answer in time"))

    def stopped(self) -> None:
        """End now, in a way that the client can tell from a whole reply."""
        words = "the gateway is being stopped"
        if self._started:
            self._end_broken("gateway_stopping", words)
        else:
            self.cannot_be_sent(Refusal("gateway_stopping", words, None, 1))

    # Sending.

    def set_deadline(self, seconds: float | None) -> None:
        """Act when so many seconds have passed."""
        self._client.deadline = NEVER if seconds is None else self._means.deadlines.after(seconds)

    def fault(self, error: Exception) -> None:
        """End after a fault of our own, if that has not been done."""
        refusal = faults.note(error, "send a request to an engine")
        if not self._account.is_open:
            self._let_go()
        elif self._started:
            self._end_broken(refusal.code, refusal.message)
        else:
            self.cannot_be_sent(refusal)

    def cannot_be_sent(self, refusal: Refusal) -> None:
        """End with a refusal; nothing of a reply was written."""
        self._let_go()
        self._account.note_error(refusal.code)
        self._account.refused(refusal.status, self._means.deadlines.now())
        self._client.refuse(refusal, self._task.request_id)

    # What the engine's connection calls.

    def reply_head(
        self, status: int, headers: list[tuple[bytes, bytes]], length: int | None
    ) -> None:
        """Look at the head; it is written together with the first byte of the body."""
        engine = self._sending.engine
        if engine is None:
            return
        if status == LOADING:
            if self._sending.another_is_open():
                words = "the engine answers 503: it is loading, or full"
                self._sending.failed(words, answers=True)
                return
        else:
            engine.worked(self._means.deadlines.now())
        if engine.endpoint.is_outside:
            refusal = outside.refusal_of(status)
            if refusal is not None:
                self.cannot_be_sent(refusal)
                return
            headers = outside.kept(headers)
        self._status = status
        lines = passed_on(headers)
        if status == LOADING and b"retry-after:" not in lines.lower():
            lines += b"retry-after: 2\r\n"
        self._events = is_event_stream(headers)
        sent = self._sending.outgoing
        if self._events and sent.gathers:
            self._events = False
            self._reply = GatheredReply(chat=self._task.request.path == CHAT)
            lines = JSON
        elif self._events:
            self._reply = EventStream(
                hide_usage=sent.hides_usage, hide_progress=sent.hides_progress
            )
            length = None  # an event may be taken out
        self._framing = Framing(status, lines, length, self._task.request, self._task.request_id)

    def reply_piece(self, data: bytes) -> None:
        """Pass a piece of the body on: what the gateway does most."""
        self._moved = True
        framing = self._flowing
        if framing is None:
            self._take_piece(data)
            return
        out = self._reply.feed(data)
        if out:
            self._client.write(framing.piece(out))

    def reply_end(self, data: bytes) -> None:
        """Pass the end of the body on."""
        framing = self._framing
        if framing is None:
            return
        out = self._reply.feed(data) + self._reply.rest()
        if isinstance(self._reply, GatheredReply):
            if self._reply.failed:
                self._ask_as_written(strange=self._reply.strange)
                return
            framing = self._framed_whole(out)
        self._finish(framing, out)

    def reply_broken(self, words: str, *, untouched: bool) -> None:
        """Go to another engine while nothing was written; else end the reply as broken."""
        reused = self._sending.broke_off()
        if self._sending.engine is None:
            return
        if self._started:
            self._end_broken("engine_failed", words)
            return
        self._forget_reply()
        if untouched and reused:
            # The engine closed an idle connection just when it was used: that says nothing of it.
            self._sending.on_a_new_connection()
        else:
            self._sending.failed(words)

    # Passing on.

    def _take_piece(self, data: bytes) -> None:
        """Take a piece before anything of the reply was written."""
        framing = self._framing
        if framing is None:
            return
        out = self._reply.feed(data)
        if isinstance(self._reply, GatheredReply):
            if self._reply.failed:
                self._ask_as_written(strange=self._reply.strange)
                return
        elif out:
            self._client.write(self._begin(framing) + framing.piece(out))
            self._flowing = framing
            self._means.streams.add(self)
        if not self._paused and (self._started or self._is_gathering):
            self.set_deadline(self._task.config.idle_timeout)

    def look(self, now: float) -> None:
        """Charge what passed since the last look, and give the engine its time anew."""
        if not self._moved:
            return
        self._moved = False
        if self._events:
            self._account.progress(self._reply.produced)
        if not self._paused:
            self._client.deadline = now + self._task.config.idle_timeout

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
        engine = self._sending.engine
        if engine is None:
            return
        if strange:
            engine.stops_gathering()
        self._forget_reply()
        self._sending.as_written()

    def _forget_reply(self) -> None:
        """Begin anew: nothing of what came so far was written."""
        self._framing = None
        self._reply = WholeReply()

    # Ending.

    def _begin(self, framing: Framing) -> bytes:
        """Note that the reply begins: from here on it cannot go to another engine."""
        self._started = True
        self._sending.outgoing.drop()
        if self._events:
            self._account.first_byte(self._means.deadlines.now())
        return framing.begin()

    def _finish(self, framing: Framing, out: bytes) -> None:
        """End a whole reply."""
        out = framing.end(out)
        if not self._started:
            out = self._begin(framing) + out
        if out:
            self._client.write(out)
        self._stop_flowing()
        now = self._means.deadlines.now()
        usage = self._reply.usage
        says = usage is not None and usage.completion_tokens is not None
        produced = 0 if says else self._reply.produced  # not counted where it is not needed
        self._account.finished(self._status, usage, produced, now)
        self._sending.arrived(now)
        self._client.finish(keep=not framing.to_the_end)

    def _end_broken(self, code: str, words: str) -> None:
        """End a reply that began and will not be whole, so that the client can tell."""
        self._let_go()
        self._account.note_error(code)
        self._account.broken(*self._so_far())
        self._break(code, words)

    def _break(self, code: str, words: str) -> None:
        """Write that a reply that began ends here, where its form has words for it."""
        framing = self._framing
        if framing is not None and self._events:
            self._client.write(framing.end(error_event(code, words)))
            self._client.finish(keep=False)
        else:
            self._client.abort()

    def _let_go(self) -> None:
        """Leave the engine, whatever it is doing for this request, or the queue."""
        self._stop_flowing()
        self._sending.let_go()

    def _stop_flowing(self) -> None:
        if self._flowing is not None:
            self._flowing = None
            self._means.streams.discard(self)

    def _so_far(self) -> tuple[int | None, int, float, Usage | None]:
        """Return status, estimated tokens, the time, and what the engine said of its usage."""
        now = self._means.deadlines.now()
        if self._started or (self._is_gathering and self._reply.produced):
            says = self._reply.usage if self._events or self._is_gathering else None
            return self._status, self._reply.produced, now, says
        return None, 0, now, None
