"""One client's connection: requests in, replies out in the order of the requests."""

import asyncio
from typing import Protocol, cast

from llmgw.gateway.proxy.bodies import Bodies
from llmgw.gateway.proxy.deadlines import NEVER, Deadlines
from llmgw.gateway.proxy.means import Live
from llmgw.gateway.proxy.replies import CONTINUE, refusal_reply
from llmgw.gateway.proxy.requests import Request, RequestReader
from llmgw.gateway.refusals import Refusal

WAITING_MOST = 32
"""Requests that may wait on a connection behind the one that is served (pipelining)."""
AHEAD_BYTES = 64 << 10
"""Bytes of such requests that are read ahead.

Of what is more nothing is kept, and the connection ends behind the requests that are whole. Reading
goes on: a client that leaves could not be told from one that waits otherwise.
"""
LINGER = 2.0
"""Seconds for which a refused client may still send, so that it reads the refusal."""


class Running(Protocol):
    """A request that an engine serves."""

    def client_left(self) -> None:
        """The client's connection is gone."""
        ...

    def pause(self) -> None:
        """The client does not take more for now."""
        ...

    def resume(self) -> None:
        """The client takes more again."""
        ...

    def expired(self) -> None:
        """The deadline that it set has passed."""
        ...

    def stopped(self) -> None:
        """The worker ends now."""
        ...

    @property
    def live(self) -> Live:
        """Return what the request has become, for whoever looks at requests in flight."""
        ...


class Desk(Protocol):
    """Where a connection's requests are decided and served (one a worker)."""

    @property
    def deadlines(self) -> Deadlines:
        """Return the deadlines of this worker's connections."""
        ...

    @property
    def client_timeout(self) -> float:
        """Return the seconds that a client has to send a request, or to send none."""
        ...

    @property
    def body_most(self) -> int:
        """Return the bytes that a request's body may have."""
        ...

    @property
    def bodies(self) -> Bodies:
        """Return the count of what is held of requests' bodies."""
        ...

    @property
    def draining(self) -> bool:
        """Say whether connections are to end."""
        ...

    @property
    def leaving(self) -> bool:
        """Say whether each connection is to end with the next reply."""
        ...

    def check_head(self, request: Request) -> Refusal | None:
        """Say whether a request is refused before its body is read."""
        ...

    def serve(self, connection: "ClientConnection", request: Request) -> Running | None:
        """Answer a request at once (None) or begin to serve it; it may be refused already."""
        ...

    def opened(self, connection: "ClientConnection") -> None:
        """Note a connection that is there."""
        ...

    def closed(self, connection: "ClientConnection") -> None:
        """Note that it is gone."""
        ...


class ClientConnection(asyncio.Protocol):
    """Reads ahead while a request is served, so that a client that leaves is noticed at once."""

    __slots__ = (
        "_advancing",
        "_current",
        "_desk",
        "_full",
        "_left",
        "_lingering",
        "_owes_word",
        "_reader",
        "_receiving",
        "_running",
        "_transport",
        "_waiting",
        "_waiting_bytes",
        "deadline",
    )

    _transport: asyncio.Transport

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reader = RequestReader(self, desk.body_most, desk.bodies)
        self._waiting: list[Request] = []  # short; an empty deque has half a KB
        self._waiting_bytes = 0
        self._current: Request | None = None
        self._running: Running | None = None
        self._advancing = False
        self._receiving = False
        self._lingering = False
        self._owes_word = False
        """A client waits for a word to send its body."""
        self._full = False
        self._left = 0
        self.deadline = NEVER

    # What whoever looks at requests in flight asks.

    @property
    def live(self) -> Live | None:
        """Return the request that is served; None: there is none."""
        return None if self._running is None else self._running.live

    @property
    def peer(self) -> str | None:
        """Return the address that the client connects from; None: it can't be told."""
        found = self._transport.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if isinstance(found, tuple) else None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._desk.opened(self)
        self._desk.deadlines.add(self)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Read requests."""
        self._reader.feed(data)
        current = self._current
        if current is not None and self._waiting_bytes + self._reader.held > AHEAD_BYTES:
            self._reader.stop()
            self._receiving = self._owes_word = False
            (self._waiting or [current])[-1].keep_alive = False

    def eof_received(self) -> bool:
        """Take the end of what a client sends for its leaving, as a closed connection looks."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End what is served for nobody."""
        self._desk.deadlines.discard(self)
        self._desk.closed(self)
        self._reader.stop()
        self._drop_waiting()
        running, self._running = self._running, None
        current, self._current = self._current, None
        if running is not None:
            running.client_left()
        if current is not None:
            current.drop()

    def pause_writing(self) -> None:
        """Let the engine wait, and the requests behind."""
        self._full = True
        if self._running is not None:
            self._running.pause()

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        if self._running is not None:
            self._running.resume()
        self._advance()

    # What the reader calls.

    def request_begins(self) -> None:
        """Give the client its time to send the whole request."""
        self._receiving = True
        if self._current is None:
            self.deadline = self._desk.deadlines.after(self._desk.client_timeout)

    def head_is_here(self, request: Request) -> Refusal | None:
        """Decide on the head; a client that waits for a word to send its body gets it."""
        refusal = self._desk.check_head(request)
        waits = request.expects_continue and not request.http_10
        if refusal is None and waits:
            self._owes_word = True
            self._give_word()
        return refusal

    def _give_word(self) -> None:
        """Let a client send its body, once nothing stands before that request."""
        if self._owes_word and self._current is None and not self._waiting:
            self._owes_word = False
            self._transport.write(CONTINUE)

    def request_is_here(self, request: Request) -> None:
        """Serve the request, or let it wait for its turn."""
        self._receiving = self._owes_word = False
        if len(self._waiting) >= WAITING_MOST:
            request.keep_alive = False
            self._reader.stop()
        self._waiting.append(request)
        self._waiting_bytes += len(request.body)
        self._advance()

    # What whoever serves a request calls.

    def write(self, data: bytes) -> None:
        """Write a part of the current reply."""
        self._transport.write(data)

    def finish(self, *, keep: bool = True) -> None:
        """The current reply is written: go on, or close when the connection ends with it."""
        request, self._current = self._current, None
        self._running = None
        if request is None:
            return
        request.drop()
        if self._transport.is_closing():
            return
        if not keep or not request.keep_alive or self._desk.draining:
            self._close()
            return
        self._await_request()
        self._advance()

    def refuse(self, refusal: Refusal, request_id: bytes) -> None:
        """Answer the current request with a refusal, and go on."""
        request = self._current
        if request is not None:
            self._transport.write(refusal_reply(refusal, request, request_id))
            self.finish()

    def abort(self) -> None:
        """Break the connection: what was written of the reply is not the whole."""
        self._running = None
        self._transport.abort()

    def break_off(self) -> None:
        """Break the connection in a way that tells whoever serves it that the client is gone."""
        self.deadline = NEVER
        self._transport.abort()

    def end_if_idle(self) -> None:
        """Close a connection on which nothing is asked or served (the worker ends)."""
        if self._current is None and not self._lingering and not self._receiving:
            self._close()

    def cut(self) -> None:
        """End what is left, because the worker ends."""
        if self._running is not None:
            self._running.stopped()
        else:
            self._transport.abort()

    def expire(self) -> None:
        """Act on the deadline that has passed."""
        self.deadline = NEVER
        if self._running is not None:
            self._running.expired()
        elif self._lingering:
            self._expire_lingering()
        elif self._receiving:
            self._reader.stop()
            late = Request()
            late.keep_alive = False
            late.refusal = Refusal("request_timeout", "the request took too long to arrive")
            self.request_is_here(late)
        else:
            self._close()

    def _expire_lingering(self) -> None:
        """Give up, unless the client still takes what was written for it."""
        left = self._transport.get_write_buffer_size()
        if left and left != self._left:
            self._left = left
            self._await_request()
        else:
            self._transport.abort()

    def _advance(self) -> None:
        """Serve what waits, one after the other, without recursion."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._waiting and self._may_begin():
                self._begin(self._waiting.pop(0))
        finally:
            self._advancing = False
        self._give_word()

    def _may_begin(self) -> bool:
        # A client that asks and does not read gets no further replies piled up.
        return self._current is None and not self._full and not self._transport.is_closing()

    def _begin(self, request: Request) -> None:
        self.deadline = NEVER
        self._waiting_bytes -= len(request.body)
        self._current = request
        if self._desk.leaving and not self._waiting:
            request.keep_alive = False
        running = self._desk.serve(self, request)
        if self._current is request and running is not None:
            self._running = running
            if self._full:
                running.pause()

    def _await_request(self) -> None:
        self.deadline = self._desk.deadlines.after(self._desk.client_timeout)

    def _drop_waiting(self) -> None:
        for request in self._waiting:
            request.drop()
        self._waiting.clear()

    def _close(self) -> None:
        """Close after what was written; a client that still sends is heard out for a while.

        Closing with unread bytes makes the kernel reset the connection, and the reset can overtake
        the reply.
        """
        self._reader.stop()
        self._drop_waiting()
        self._lingering = True
        self.deadline = self._desk.deadlines.after(LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()  # TLS has a word of its own for it
