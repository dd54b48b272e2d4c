"""A request that has to wait for its turn, and the exchange that it becomes."""

import json
from collections.abc import Callable
from math import inf
from typing import Protocol

from llmgw.gateway.accounting import Account
from llmgw.gateway.admission.gate import Going, Seat
from llmgw.gateway.paths import STREAMED
from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.client import ClientConnection, Running
from llmgw.gateway.proxy.deadlines import NEVER
from llmgw.gateway.proxy.endpoints import Way
from llmgw.gateway.proxy.means import Client, Live, Means, Task
from llmgw.gateway.proxy.replies import Framing
from llmgw.gateway.proxy.tries import FULL, NO_REPLICA
from llmgw.gateway.refusals import RETRY_AFTER, Refusal, error_event, quoted
from llmgw.model.live import QUEUED

STREAM = b"content-type: text/event-stream\r\ncache-control: no-cache\r\n"
FALLS_BACK = frozenset({"no_replica", "queue_full", "queue_timeout"})
"""Refusals in place of which a request goes to what stands in for its model."""
ERROR_MOST = 64 << 10
"""Bytes of an engine's answer that are read to tell a client what it says."""


class Begins(Running, Protocol):
    """An exchange that was not begun yet."""

    def start(self) -> None:
        """Send the request to an engine, or refuse it."""
        ...

    def fault(self, error: Exception) -> None:
        """End after a fault of our own, if that has not been done."""
        ...


class Turn:
    """Waits, tells the client of a stream its place meanwhile, and goes on as an exchange.

    Args:
        client: whose request it is.
        task: what it asks.
        account: of the request, open.
        means: the clock, and the routes of the moment at which it goes on.
        exchange: makes the exchange; given the client that it speaks to.
    """

    __slots__ = (
        "_account",
        "_client",
        "_due",
        "_exchange",
        "_make",
        "_means",
        "_paused",
        "_seat",
        "_task",
        "_told",
    )

    def __init__(
        self,
        client: ClientConnection,
        task: Task,
        account: Account,
        means: Means,
        exchange: Callable[[Client], Begins],
    ) -> None:
        self._client = client
        self._task = task
        self._account = account
        self._means = means
        self._make = exchange
        self._exchange: Begins | None = None
        self._seat: Seat | None = None
        self._told: ToldClient | None = None
        self._paused = False
        period = task.config.comment_period
        self._due = means.deadlines.after(period) if period and _streams(task) else inf

    def wait(self, seat: Seat, seconds: float) -> None:
        """Wait in a queue, for so long at most."""
        self._seat = seat
        self._client.deadline = self._means.deadlines.after(seconds)

    # What the gate calls.

    def go_on(self, way: Way, going: Going | None) -> None:
        """Go to an engine."""
        if going is not None:
            self._account.also(going)
        try:
            self._go_on(way)
        except Exception as error:  # noqa: BLE001 (the others that wait go on)
            self._fault(error)

    def _go_on(self, way: Way) -> None:
        self._task.way = way
        self._means.renew(self._task)
        self._client.deadline = NEVER
        exchange = self._exchange = self._make(self._told or self._client)
        exchange.start()
        if self._paused:
            exchange.pause()

    def _fault(self, error: Exception) -> None:
        """End after a fault of our own, if that has not been done."""
        if self._exchange is not None:
            self._exchange.fault(error)
            return
        refusal = faults.note(error, "let a request wait")
        if self._account.is_open:
            self.give_up(refusal)

    def give_up(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        if self._seat is not None:
            self._seat.leave()
        if refusal.code in FALLS_BACK and self._fall_back():
            return
        self._account.refused(refusal.status, self._means.deadlines.now())
        self._account.note_refusal(refusal.code)
        (self._told or self._client).refuse(refusal, self._task.request_id)

    @property
    def goes_on(self) -> bool:
        """Say whether it has become an exchange."""
        return self._exchange is not None

    def _fall_back(self) -> bool:
        """Go to what stands in for the model; say whether there is anything."""
        task = self._task
        self._means.renew(task)
        way = self._means.stand_in(task)
        if way is None:
            return False
        task.may_fall_back = False
        self._account.fell_back(way.model, FULL if task.way.engines else NO_REPLICA)
        self.go_on(way, None)
        return True

    def tell(self, place: int, length: int, now: float) -> float:
        """Tell the client of a stream its place; return when it is to be told again."""
        if now >= self._due and not self._paused:
            try:
                self._comment(f"waiting: {place} of {length}")
            except Exception as error:  # noqa: BLE001 (the others that wait are told)
                self._due = inf
                self._fault(error)
                return inf
            self._due = now + self._task.config.comment_period
        return self._due

    def _comment(self, words: str) -> None:
        if self._told is None:
            self._told = ToldClient(self._client, self._task)
        self._told.comment(words)

    # What whoever looks at requests in flight asks.

    @property
    def live(self) -> Live:
        """Return what the request has become."""
        return self if self._exchange is None else self._exchange.live

    @property
    def task(self) -> Task:
        """Return what it asks."""
        return self._task

    @property
    def account(self) -> Account:
        """Return its account."""
        return self._account

    @property
    def engine(self) -> None:
        """Return no engine: it waits for one."""

    @property
    def state(self) -> str:
        """Return how far it is."""
        return QUEUED

    @property
    def tokens(self) -> None:
        """Return that nothing can have been produced."""

    def cancelled(self, refusal: Refusal) -> None:
        """End while it waits, because an operator says so."""
        if self._seat is not None:
            self._seat.leave()
        now = self._means.deadlines.now()
        self._account.note_error(refusal.code)
        self._account.ended(None, 0, now, answered=refusal.status)
        (self._told or self._client).refuse(refusal, self._task.request_id)

    # What the client's connection calls.

    def client_left(self) -> None:
        """Leave the queue at once, or the engine."""
        if self._exchange is not None:
            self._exchange.client_left()
            return
        if self._seat is not None:
            self._seat.leave()
        if self._account.is_open:  # else a fault has cut its end short
            self._account.cancelled(None, 0, self._means.deadlines.now())

    def pause(self) -> None:
        """Let the engine wait."""
        self._paused = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume(self) -> None:
        """Let the engine go on."""
        self._paused = False
        if self._exchange is not None:
            self._exchange.resume()

    def expired(self) -> None:
        """End what takes too long."""
        if self._exchange is not None:
            self._exchange.expired()
            return
        self._means.renew(self._task)
        config, way = self._task.config, self._task.way
        if way.engines:
            words = f"no replica had room within {config.queue_for:g} s"
            refusal = Refusal("queue_timeout", f"model {quoted(way.model)}: {words}", "model")
        else:
            words = f"it was not started within {config.held_for:g} s"
            refusal = Refusal("no_replica", f"model {quoted(way.model)}: {words}", "model")
        self.give_up(Refusal(refusal.code, refusal.message, refusal.param, RETRY_AFTER))

    def stopped(self) -> None:
        """End now."""
        if self._exchange is not None:
            self._exchange.stopped()
        else:
            self.give_up(Refusal("gateway_stopping", "the gateway is being stopped", None, 1))


def _streams(task: Task) -> bool:
    return task.asked.stream is True and task.request.path in STREAMED


class ToldClient:
    """The client of a stream that was told its place while it waited: the head is out.

    What is written for it after that is the body of one stream: of an engine's events the head is
    left out, and everything else (a refusal, an engine's error) becomes an error event at its end.
    """

    __slots__ = ("_client", "_framing", "_held", "_passes", "_waits")

    def __init__(self, client: ClientConnection, task: Task) -> None:
        self._client = client
        self._framing = Framing(200, STREAM, None, task.request, task.request_id)
        self._held = b""
        self._waits = True
        """Nothing of a reply has come yet."""
        self._passes = False
        client.write(self._framing.begin())

    @property
    def deadline(self) -> float:
        """Return the connection's deadline."""
        return self._client.deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._client.deadline = deadline

    def comment(self, words: str) -> None:
        """Write a comment, which clients skip."""
        self._client.write(self._framing.piece(f": {words}\n\n".encode()))

    def write(self, data: bytes) -> None:
        """Write a part of the reply."""
        if self._passes:
            self._client.write(data)
            return
        self._held += data[: max(0, ERROR_MOST - len(self._held))] if not self._waits else data
        head, end, rest = self._held.partition(b"\r\n\r\n")
        if self._waits and end:
            self._waits = False
            self._passes = _is_stream(head)
            self._held = b"" if self._passes else self._held
            if self._passes and rest:
                self._client.write(rest)

    def finish(self, *, keep: bool = True) -> None:
        """End the reply."""
        if not self._passes:
            self._end(_as_event(self._held))
        self._client.finish(keep=keep and not self._framing.to_the_end)

    def refuse(self, refusal: Refusal, request_id: bytes) -> None:  # noqa: ARG002
        """End the stream with a refusal."""
        self._end(error_event(refusal.code, refusal.message))
        self._client.finish(keep=not self._framing.to_the_end)

    def abort(self) -> None:
        """Break the connection."""
        self._client.abort()

    def _end(self, event: bytes) -> None:
        self._client.write(self._framing.end(event))


def _is_stream(head: bytes) -> bool:
    status, _, lines = head.partition(b"\r\n")
    return b" 200 " in status and b"content-type: text/event-stream" in lines.lower()


def _as_event(reply: bytes) -> bytes:
    """Return an engine's answer that is no stream as an error event."""
    head, _, body = reply.partition(b"\r\n\r\n")
    try:
        if b"transfer-encoding: chunked" in head.lower():
            body = _unchunked(body)
        read = json.loads(body)
        if isinstance(read, dict) and "error" in read:
            return b"data: " + json.dumps(read, separators=(",", ":")).encode() + b"\n\n"
    except (ValueError, RecursionError):
        pass  # it was cut off, is no JSON, or nested too deeply
    status = head.partition(b"\r\n")[0].split(b" ")[1:2]
    words = f"the engine answered {status[0].decode() if status else 'nothing'}, not a stream"
    return error_event("engine_failed", words)


def _unchunked(body: bytes) -> bytes:
    """Return what is framed in chunks.

    Raises:
        ValueError: it is not.
    """
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        parts.append(body[:length])
        body = body[length + 2 :]
    return b"".join(parts)
