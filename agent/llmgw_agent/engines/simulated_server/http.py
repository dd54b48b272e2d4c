"""HTTP/1.1 as far as an engine needs it: one request at a time a connection, cancelled with it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

HEAD_MOST = 64 << 10
BODY_MOST = 64 << 20

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Handler(Protocol):
    """What answers requests."""

    async def answer(self, request: Request, reply: "Reply") -> None:
        """Answer one request; cancelled when its client goes away."""
        ...


class _Malformed(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Reply:
    """The way back to one request's client."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def json(self, status: int, body: object) -> None:
        """Send a whole answer of JSON."""
        self.whole(status, json.dumps(body).encode(), "application/json; charset=utf-8")

    def error(self, status: int, words: str, kind: str) -> None:
        """Send an error in the shape that engines use."""
        self.json(status, {"error": {"message": words, "type": kind, "code": status}})

    def whole(self, status: int, body: bytes, content_type: str) -> None:
        """Send a whole answer."""
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nServer: simulated\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._connection.write(head.encode() + body)

    def begin_events(self) -> None:
        """Begin a stream of server-sent events."""
        self._connection.write(
            b"HTTP/1.1 200 OK\r\nServer: simulated\r\nContent-Type: text/event-stream\r\n"
            b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    async def event(self, data: bytes) -> None:
        """Send one event; waits while the client reads too slowly."""
        self._connection.write(b"%x\r\ndata: %b\n\n\r\n" % (len(data) + 8, data))
        await self._connection.drained()

    def end_events(self) -> None:
        """End the stream."""
        self._connection.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection at once, whatever was promised."""
        self._connection.abort()


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._continued = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancel the request that was being answered: its slot is free at once."""
        self._transport = None
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        """Take a client that sends no more for one that has gone."""
        return False

    def data_received(self, data: bytes) -> None:
        """Collect a request and answer it."""
        self._buffer += data
        if self._task is None:
            self._next()

    def pause_writing(self) -> None:
        """Hold tokens back: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._writable.set()

    def write(self, data: bytes) -> None:
        """Send bytes; nothing happens when the client has gone."""
        if self._transport is not None:
            self._transport.write(data)

    async def drained(self) -> None:
        """Return when more may be written."""
        await self._writable.wait()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        try:
            request = self._take()
        except _Malformed as error:
            Reply(self).error(error.status, error.words, "invalid_request_error")
            if self._transport is not None:
                self._transport.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        await self._handler.answer(request, Reply(self))
        self._task = None
        if self._buffer and self._transport is not None:
            self._next()

    def _take(self) -> Request | None:
        """Return the request that has arrived whole and drop it from the buffer; None: not yet."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_MOST:
                raise _Malformed(431, "the request's head is too long")
            return None
        method, path, headers = _head(bytes(self._buffer[:end]))
        length = _length(headers)
        whole = end + 4 + length
        if len(self._buffer) < whole:
            if headers.get("expect", "").lower() == "100-continue" and not self._continued:
                self._continued = True
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body = bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        self._continued = False
        return Request(method=method, path=path, headers=headers, body=body)


def _head(raw: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = raw.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _Malformed(400, "the request's first line is none of HTTP/1.1")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _Malformed(400, "a header without a colon")
        headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1].partition("?")[0], headers


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise _Malformed(411, "send the body with a Content-Length")
    text = headers.get("content-length", "0")
    if not text.isascii() or not text.isdigit():
        raise _Malformed(400, "Content-Length is no number")
    if int(text) > BODY_MOST:
        raise _Malformed(413, "the body is too long")
    return int(text)
