"""The listening socket, and the connections that carry nothing."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import grpclib.server
from grpclib.protocol import H2Protocol

from llmgw.base.errors import Usage
from llmgw.link.codec import BytesCodec
from llmgw.link.guard import CONFIG, HANDSHAKE_TIMEOUT, SHUTDOWN_TIMEOUT, watch_unacknowledged
from llmgw.link.plain import check_loopback

BACKLOG: Final = 4096
"""Connections that may wait to be accepted: a whole fleet comes back at once after a restart."""

IDLE_TIMEOUT: Final = 30.0
"""How long a connection may be open without carrying a stream; joining takes less."""

Bind = Callable[[str, int], Awaitable[socket.socket]]
"""Makes the listening socket; the event loop has to know what it is."""


class _Server(grpclib.server.Server):
    """grpclib's server, used for its protocol: it neither limits connections nor ends them."""

    def __init__(self, service: Any, listener: "Listener") -> None:  # noqa: ANN401
        super().__init__([service], codec=BytesCodec(), config=CONFIG)
        self._listener = listener

    def protocol(self) -> H2Protocol:
        """Return the protocol of a new connection."""
        made = self._protocol_factory()
        return _Protocol(made.handler, made.config, made.h2_config, self._listener)


class _Protocol(H2Protocol):
    def __init__(self, handler: Any, config: Any, h2_config: Any, listener: "Listener") -> None:  # noqa: ANN401
        super().__init__(handler, config, h2_config)
        self._listener = listener
        self._own: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # uvloop's transports have the methods and not the base class.
        self._own = cast("asyncio.Transport", transport)
        self._listener.opened(self._own)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._own is not None:
            self._listener.lost(self._own)
            self._own = None


class Listener:
    """The socket of a link server and all its connections.

    Args:
        service: has grpclib's `__mapping__`.
        context: TLS; None is plaintext.
        bind: makes the socket; see `bound`.
    """

    def __init__(
        self,
        service: Any,  # noqa: ANN401
        context: ssl.SSLContext | None,
        bind: Bind,
    ) -> None:
        self._service = service
        self._context = context
        self._bind = bind
        self._server: asyncio.AbstractServer | None = None
        self._idle: dict[asyncio.Transport, asyncio.TimerHandle | None] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen on one address, and return the port.

        Raises:
            Usage: the address can't be listened on, or is no loopback address in plaintext.
        """
        if self._context is None:
            check_loopback(host)
        loop = asyncio.get_running_loop()
        sock = await self._bind(host, port)
        tls = self._context is not None
        self._server = await loop.create_server(
            _Server(self._service, self).protocol,
            sock=sock,
            backlog=BACKLOG,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT if tls else None,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT if tls else None,
        )
        bound: int = sock.getsockname()[1]
        return bound

    def close(self) -> None:
        """Accept nobody any more; what is connected stays.

        asyncio's `wait_closed` is never awaited: from Python 3.12 on it waits for connections.
        """
        if self._server is not None:
            self._server.close()

    def abort(self) -> None:
        """Cut every connection."""
        for transport in tuple(self._idle):
            transport.abort()

    def opened(self, transport: asyncio.Transport) -> None:
        """Note a connection; it is cut when it does not carry a stream in time."""
        loop = asyncio.get_running_loop()
        self._idle[transport] = loop.call_later(IDLE_TIMEOUT, transport.abort)

    def keep(self, transport: asyncio.Transport) -> None:
        """Note that a connection carries a stream."""
        timer = self._idle.get(transport)
        if timer is not None:
            timer.cancel()
            self._idle[transport] = None

    def lost(self, transport: asyncio.Transport) -> None:
        """Forget a connection."""
        timer = self._idle.pop(transport, None)
        if timer is not None:
            timer.cancel()


async def bound(host: str, port: int) -> socket.socket:
    """Return a socket of this machine that is bound to an address.

    Raises:
        Usage: it can't be.
    """
    loop = asyncio.get_running_loop()
    where = f"{host}:{port}"
    try:
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise Usage(f"{where}: no address of that name to listen on") from error
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        watch_unacknowledged([sock])  # what it accepts inherits the option
        sock.bind(address)
    except OSError as error:
        sock.close()
        words = os.strerror(error.errno) if error.errno else str(error)
        hint = "another program has it; see: ss -ltnp" if error.errno == errno.EADDRINUSE else None
        raise Usage(f"{where}: can't be listened on: {words}", hint=hint) from error
    return sock
