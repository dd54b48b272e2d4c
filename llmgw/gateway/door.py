"""Clients' connections as they come in: so many and no more, and none forgotten on its way."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import cast
from weakref import WeakKeyDictionary

from llmgw.gateway.accounting import Books
from llmgw.gateway.proxy.client import ClientConnection, Desk
from llmgw.gateway.proxy.replies import refusal_reply
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import Refusal
from llmgw.gateway.tls import HANDSHAKE

SHARE = 0.45
"""Of the files that a worker may open: a request has a client's connection and an engine's."""
RETRY_AFTER = 1
LINGER = 1.0
"""Seconds for which one that is turned away may still send, so that it reads the refusal."""
LINGERING_MOST = 64


def most_connections(files: int) -> int | None:
    """Return how many clients' connections a worker takes at once; None: any number.

    Args:
        files: how many it may open; negative: any number.
    """
    return None if files < 0 else max(1, int(files * SHARE))


class Entering(ClientConnection):
    """One that can be forgotten: of a handshake that fails nobody is told."""

    __slots__ = ("__weakref__",)


class Door:
    """Lets connections in.

    Args:
        desk: serves them.
        books: told of those that are turned away.
        most: how many may be there at once; None: any number.
        request_id: names a reply.
    """

    def __init__(
        self, desk: Desk, books: Books, most: int | None, request_id: Callable[[], bytes]
    ) -> None:
        self.inside: dict[ClientConnection, None] = {}
        self._desk = desk
        self._books = books
        self._most = inf if most is None else most
        self._request_id = request_id
        self._entering: WeakKeyDictionary[ClientConnection, float] = WeakKeyDictionary()
        self._turned_away: set[TurnedAway] = set()

    def connection(self) -> "ClientConnection | TurnedAway":
        """Return the protocol of a connection that was just accepted."""
        if len(self.inside) + len(self._entering) >= self._most:
            return self._turn_away()
        one = Entering(self._desk)
        self._entering[one] = self._desk.deadlines.now()
        return one

    @property
    def is_empty(self) -> bool:
        """Say whether nobody is there, or on the way in (a TLS handshake)."""
        return not self.inside and not self._entering

    def opened(self, connection: ClientConnection) -> None:
        """Note a connection that is there."""
        self._entering.pop(connection, None)
        self.inside[connection] = None

    def closed(self, connection: ClientConnection) -> None:
        """Note that it is gone."""
        self.inside.pop(connection, None)

    def look(self, now: float) -> None:
        """Forget handshakes that failed."""
        for one, since in list(self._entering.items()):
            if now - since > HANDSHAKE:
                self._entering.pop(one, None)

    def _turn_away(self) -> "TurnedAway":
        words = "this worker of the gateway has as many connections as it may have"
        refusal = Refusal("too_many_connections", words, None, RETRY_AFTER)
        self._books.answered(refusal.status)
        self._books.failed(refusal.code)
        request = Request()
        request.keep_alive = False
        reply = refusal_reply(refusal, request, self._request_id())
        return TurnedAway(reply, self._turned_away)


class TurnedAway(asyncio.Protocol):
    """Tells a client that there is no room, whatever it asks, and closes."""

    def __init__(self, reply: bytes, others: "set[TurnedAway]") -> None:
        self._reply = reply
        self._others = others

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer; what the client has sent is read, or the kernel resets the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._reply)
        if len(self._others) >= LINGERING_MOST or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._others.add(self)
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Make room for another one."""
        self._others.discard(self)
