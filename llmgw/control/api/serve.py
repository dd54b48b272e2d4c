"""Putting the admin API behind a socket, in the loop of whoever asks for it."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
from collections.abc import Generator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from llmgw.base.errors import Usage

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 15.0
"""A request's head has to be there within this time, the first and every later one."""
KEEP_SECONDS = 30
CONNECTIONS_MOST = 1024
STOP_SECONDS = 3
BACKLOG = 512


class Running:
    """The served API. Stop it before what it speaks for ends."""

    def __init__(self, server: "_Server", app: Starlette, sockets: Sequence[socket.socket]) -> None:
        self.host, self.port = sockets[0].getsockname()[:2]
        self._app = app
        self._server = server
        self._task = asyncio.ensure_future(server.serve(list(sockets)))

    async def started(self) -> None:
        """Wait until requests are answered."""
        ready = asyncio.ensure_future(self._server.ready.wait())
        try:
            await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._task.done():
            await self._task

    async def wait(self) -> None:
        """Wait until it ends, which it does when it is stopped or fails."""
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """End all streams, let requests in flight finish for a moment, and close."""
        self._app.state.ending.set()
        self._server.should_exit = True
        await self.wait()


async def serve(
    app: Starlette,
    host: str,
    port: int,
    *,
    sockets: Sequence[socket.socket] | None = None,
) -> Running:
    """Serve the application until it is stopped.

    Signals stay with whoever runs the process, nothing is logged for each request, and no header
    of a proxy is believed.

    Args:
        app: from `llmgw.control.api.app.build`; learns here whether it is served on loopback alone.
        host: address or name to listen on.
        port: 0 for any free one; `Running.port` tells it.
        sockets: listening already; then host and port are not used.

    Raises:
        Usage: it can't listen there; in one line, with what to do.
    """
    bound = list(sockets) if sockets is not None else [await _listen(host, port)]
    app.state.loopback = all(_is_loopback(one) for one in bound)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_MOST,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    running = Running(_Server(config), app, bound)
    await running.started()
    return running


class _Server(uvicorn.Server):
    """A server that leaves signals alone and says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Protocol(H11Protocol):
    """uvicorn's connection with a time limit for a request's head, which uvicorn has none for."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head: asyncio.TimerHandle | None = None
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_expecting()
        else:
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop_expecting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_expecting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        transport: asyncio.Transport | None = self.transport
        if transport is not None and not transport.is_closing():
            transport.abort()


async def _listen(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Usage(
            f"can't listen on {host}: {error.strerror or error}",
            hint="--admin takes an address of this machine",
        ) from error
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(error, host, port) from error
    return listening


def _cannot_listen(error: OSError, host: str, port: int) -> Usage:
    if error.errno == errno.EADDRINUSE:
        return Usage(
            f"the admin API can't listen on {host}:{port}: something else listens there",
            hint=f"see what: ss -ltnp 'sport = :{port}'; or choose another port with --admin",
        )
    return Usage(
        f"the admin API can't listen on {host}:{port}: {error.strerror or error}",
        hint="choose another address with --admin",
    )


def _is_loopback(listening: socket.socket) -> bool:
    if listening.family == socket.AF_UNIX:
        return False
    try:
        return ipaddress.ip_address(listening.getsockname()[0]).is_loopback
    except ValueError:
        return False
