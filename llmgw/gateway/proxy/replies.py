"""Heads and framing of replies: what the gateway writes of its own around an engine's body."""

from collections.abc import Sequence

from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import REASONS, Refusal

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

DROPPED = frozenset(
    {
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"alt-svc",
        b"connection",
        b"content-length",
        b"date",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"server",
        b"set-cookie",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"via",
        b"x-powered-by",
        b"x-request-id",
    }
)
"""Headers of an engine that say something about the engine or its connection alone."""

_CONTENT = b"content-length: %d\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_CLOSE = b"connection: close\r\n"


def status_line(status: int) -> bytes:
    """Return the first line of a reply."""
    return b"HTTP/1.1 %d %s\r\n" % (status, REASONS.get(status, b"Unknown"))


def passed_on(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the lines of an engine's headers that a client gets."""
    dropped = DROPPED
    for name, value in headers:
        if name.lower() == b"connection":  # it names further ones that are about itself
            dropped = dropped.union(part.strip().lower() for part in value.split(b","))
    return b"".join(
        b"%b: %b\r\n" % (name, value) for name, value in headers if name.lower() not in dropped
    )


def is_event_stream(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Say whether an engine's reply is a stream of server-sent events."""
    return any(
        name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
        for name, value in headers
    )


def whole_reply(
    status: int, lines: bytes, body: bytes, request: Request, request_id: bytes
) -> bytes:
    """Return a reply that is not an engine's, framed for what the client speaks."""
    head = status_line(status) + lines + _CONTENT % len(body)
    head += b"%bx-request-id: %b\r\n" % (request.lines, request_id)
    if not request.keep_alive:
        head += _CLOSE
    return head + b"\r\n" + (b"" if request.method == "HEAD" else body)


def refusal_reply(refusal: Refusal, request: Request, request_id: bytes) -> bytes:
    """Return a refusal as a client gets it."""
    return whole_reply(refusal.status, refusal.headers(), refusal.body(), request, request_id)


class Framing:
    """How one engine's reply is framed for its client.

    With a length when the engine gave one, else in chunks, else (HTTP/1.0) to the end of the
    connection. The engine's own framing never goes further than to its parser.
    """

    __slots__ = ("_chunked", "_head", "to_the_end")

    def __init__(
        self, status: int, lines: bytes, length: int | None, request: Request, request_id: bytes
    ) -> None:
        bodiless = status in {204, 304}
        self._chunked = length is None and not bodiless and not request.http_10
        self.to_the_end = length is None and not bodiless and request.http_10
        head = status_line(status) + lines
        if self._chunked:
            head += _CHUNKED
        elif length is not None and not bodiless:
            head += _CONTENT % length
        if not request.keep_alive:
            head += _CLOSE
        self._head = head + b"%bx-request-id: %b\r\n\r\n" % (request.lines, request_id)

    def begin(self) -> bytes:
        """Return the head, which is written once and not kept."""
        head, self._head = self._head, b""
        return head

    def piece(self, data: bytes) -> bytes:
        """Return a piece of the body as it is written."""
        if not self._chunked or not data:
            return data
        return b"%x\r\n%b\r\n" % (len(data), data)

    def end(self, data: bytes) -> bytes:
        """Return the last piece of the body, which may be empty, and what ends it."""
        return self.piece(data) + LAST_CHUNK if self._chunked else data
