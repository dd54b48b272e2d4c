"""Answers `/metrics` and `/healthz` on a loopback port: HTTP/1.1, one request a connection."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from llmgw.base.address import host_and_port
from llmgw.gateway.exposition import CONTENT_TYPE

HEAD_MOST = 8192
TIMEOUT = 5.0
AT_ONCE = 16


class MetricsPage:
    """Serves the page while it is entered.

    Args:
        listen: `host:port`; port 0 takes a free one.
        page: returns the page.
    """

    def __init__(self, listen: str, page: Callable[[], str]) -> None:
        self._host, self._port = host_and_port(listen, "metrics", listening=True)
        self._page = page
        self._server: asyncio.Server | None = None
        self._open = 0
        self.port = 0

    async def __aenter__(self) -> "MetricsPage":
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, limit=HEAD_MOST
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > AT_ONCE:
                return
            with suppress(TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
                async with asyncio.timeout(TIMEOUT):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        status, body = "404 Not Found", "there is /metrics and /healthz\n"
        if method != b"GET":
            status, body = "405 Method Not Allowed", "GET alone\n"
        elif path == b"/metrics":
            status, body = "200 OK", self._page()
        elif path == b"/healthz":
            status, body = "200 OK", "ok\n"
        text = body.encode()
        lines = f"HTTP/1.1 {status}\r\ncontent-type: {CONTENT_TYPE}\r\nconnection: close\r\n"
        return f"{lines}content-length: {len(text)}\r\n\r\n".encode() + text
