"""Requests as they come in: HTTP/1 read strictly and within limits, in whatever parts it comes."""

import re
from typing import Protocol

import httptools

from llmgw.gateway.auth import Holder
from llmgw.gateway.proxy.bodies import RETRY_BODIES, Bodies
from llmgw.gateway.refusals import Refusal

HEAD_BYTES = 64 << 10
HEAD_LINES = 100
DISCARDED_MOST = 64 << 10
"""A refused request's body is read to its end up to this size, so that its connection can go on."""

KEPT = frozenset(
    {
        b"accept",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"transfer-encoding",
        b"x-llmgw-session",
    }
)
"""Headers that the gateway looks at; the others go nowhere."""
SINGLE = frozenset(
    {b"authorization", b"content-encoding", b"content-type", b"host", b"transfer-encoding"}
)
"""Those of them that stand once: of two, somebody before us may have looked at the other one."""
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")


class Request:
    """One request: its head as far as the gateway looks at it, and its body when it is whole."""

    __slots__ = (
        "_bodies",
        "_counted",
        "body",
        "headers",
        "holder",
        "http_10",
        "keep_alive",
        "length",
        "lines",
        "method",
        "path",
        "refusal",
        "target",
    )

    def __init__(self) -> None:
        self.method = ""
        self.target = b""
        self.path = b""
        """The target's path, once it was looked at."""
        self.http_10 = False
        self.keep_alive = True
        self.headers: dict[bytes, bytes] = {}
        """Those of `KEPT`, names in lower case; of a repeated one the last."""
        self.length: int | None = None
        """Bytes of body as announced; None when none is announced or it is chunked."""
        self.body = b""
        self.refusal: Refusal | None = None
        self.lines = b""
        """Headers that its reply has of the gateway's own, each with its line end."""
        self.holder: Holder | None = None
        """Whose key it carries, once that was checked."""
        self._bodies: Bodies | None = None
        self._counted = 0

    @property
    def expects_continue(self) -> bool:
        """Say whether the client waits for a word before it sends the body."""
        return b"expect" in self.headers and _word(self, b"expect") == b"100-continue"

    def take(self, body: bytes, bodies: Bodies) -> None:
        """Have a body, whose bytes are counted until they are dropped."""
        self.body = body
        self._bodies, self._counted = bodies, len(body)

    def drop(self) -> None:
        """Give the memory back of what is not looked at once a reply has begun."""
        self.headers.clear()
        self.body = b""
        if self._bodies is not None:
            self._bodies.give(self._counted)
            self._bodies = None


class Receiver(Protocol):
    """Who is told of requests."""

    def request_begins(self) -> None:
        """The first byte of a request is here."""
        ...

    def head_is_here(self, request: Request) -> Refusal | None:
        """Say whether a request is refused before its body is read."""
        ...

    def request_is_here(self, request: Request) -> None:
        """Take a whole request, or one that is refused. Called in the order of arrival."""
        ...


class RequestReader:
    """Reads the requests of one connection.

    httptools refuses what is ambiguous (both framings, two lengths, folded lines, a bare LF, NUL);
    this class adds limits, versions, the Host rule, and that an offer to upgrade is ignored.

    After a request that cannot be followed by another (`keep_alive` False) every byte is ignored.
    Between two requests nothing is kept, the parser neither: connections wait most of their time.
    """

    __slots__ = (
        "_bodies",
        "_body",
        "_chunked",
        "_counted",
        "_discard",
        "_head_bytes",
        "_in_head",
        "_lines",
        "_most",
        "_over",
        "_parser",
        "_raw",
        "_receiver",
        "_request",
        "_resuming",
        "_size",
        "_twice",
        "_upgrading",
    )

    def __init__(self, receiver: Receiver, body_most: int, bodies: Bodies) -> None:
        self._receiver = receiver
        self._bodies = bodies
        self._most = body_most
        self._parser: httptools.HttpRequestParser | None = None
        self._over = False
        self._upgrading = False
        self._resuming = False
        self._reset()

    def _reset(self) -> None:
        self._request: Request | None = None
        self._raw = 0
        self._in_head = True
        self._head_bytes = 0
        self._lines = 0
        self._twice = b""
        self._chunked = False
        self._discard = False
        self._body: bytes | bytearray = b""
        self._counted = 0
        self._size = 0

    @property
    def held(self) -> int:
        """Return how many bytes of an unfinished body are held."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Read what came in; requests are handed on from inside."""
        while data and not self._over:
            data = self._feed(data)
        if self._request is None:
            self._parser = None

    def stop(self) -> None:
        """Ignore everything from here on."""
        self._over = True
        self._drop_body()

    def _drop_body(self) -> None:
        """Give the memory back of a body that is not wanted."""
        self._bodies.give(self._counted)
        self._body, self._counted, self._size = b"", 0, 0

    def _feed(self, data: bytes) -> bytes:
        """Read some bytes; return those that have to be read again, by a new parser."""
        self._raw += len(data)
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade(data[int(upgrade.args[0]) :])
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours, not of the client
        except httptools.HttpParserError as error:
            self._refuse("bad_http", f"not acceptable HTTP: {error}")
            return b""
        if not self._over and self._raw > self._raw_most():
            code = "headers_too_large" if self._in_head else "body_too_large"
            self._refuse(code, "the request is larger than it may be")
        return b""

    def _raw_most(self) -> int:
        # Framing may not outweigh what it frames: chunk extensions and one-byte chunks end here.
        return HEAD_BYTES if self._in_head else 2 * (self._most + HEAD_BYTES)

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Read on as if no upgrade had been offered.

        httptools takes everything after such a head for another protocol, body included. A new
        parser gets a plain head with the same framing, and reads the body that belongs to it.
        """
        request = self._request
        self._upgrading = False
        if request is None or request.method == "CONNECT":
            self._refuse("bad_http", "this is no forward proxy")
            return b""
        self._parser = httptools.HttpRequestParser(self)
        framing = b"content-length: %d" % (request.length or 0)
        if self._chunked:
            framing = b"transfer-encoding: chunked"
        self._resuming = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\nhost: -\r\n" + framing + b"\r\n\r\n")
        return rest

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._resuming and not self._over:
            self._request = Request()
            self._receiver.request_begins()

    def on_url(self, part: bytes) -> None:
        """Take a part of the target."""
        request = self._request
        if request is not None and not self._resuming:
            request.target += part
            self._head_bytes += len(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head, or of the trailers, which are not looked at."""
        request = self._request
        if request is None or self._resuming or not self._in_head:
            return
        self._lines += 1
        self._head_bytes += len(name) + len(value)
        lowered = name.lower()
        if lowered in KEPT:
            if lowered in request.headers and lowered in SINGLE:
                self._twice = lowered
            request.headers[lowered] = value

    def on_headers_complete(self) -> None:
        """Decide on the head."""
        request, parser = self._request, self._parser
        if self._resuming or self._over or request is None or parser is None:
            self._resuming = False
            return
        self._in_head = False
        request.method = parser.get_method().decode("ascii", "replace")
        if not parser.should_keep_alive():
            request.keep_alive = False
        self._upgrading = parser.should_upgrade()
        self._check_head(request, parser.get_http_version())
        if request.refusal is None:
            request.refusal = self._receiver.head_is_here(request)
        if request.refusal is not None:
            self._refuse_body(request)

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._over:
            return
        self._size += len(data)
        if self._discard:
            if self._size > DISCARDED_MOST:
                self._hand_over_last()
        elif self._size > self._most:
            self._refuse("body_too_large", f"the body is larger than {self._most} bytes")
        else:
            self._add(data)

    def _add(self, data: bytes) -> None:
        """Keep a piece of the body, together with the others: chunks may be of a byte each."""
        size = len(data)
        self._counted += size
        if not self._bodies.take(size, self._counted):
            words = "the gateway holds as much of requests' bodies as it may: send it again later"
            self._refuse("bodies_full", words, RETRY_BODIES)
        elif not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data

    def on_message_complete(self) -> None:
        """Hand a whole request on."""
        request = self._request
        if self._upgrading or request is None:
            return
        if self._body:
            request.take(bytes(self._body), self._bodies)
            self._counted = 0
        self._over = not request.keep_alive
        self._reset()
        self._receiver.request_is_here(request)

    # Rules.

    def _check_head(self, request: Request, version: str) -> None:
        if version == "1.0":
            request.http_10 = True
            request.keep_alive = False
        length = request.headers.get(b"content-length")
        if length is not None:
            request.length = int(length)
        self._chunked = b"transfer-encoding" in request.headers
        request.refusal = self._framing_refusal(request, version) or self._body_refusal(request)

    def _framing_refusal(self, request: Request, version: str) -> Refusal | None:
        """Refuse a head after which nobody could say where the next request begins."""
        refusal = None
        if self._head_bytes > HEAD_BYTES or self._lines > HEAD_LINES:
            refusal = Refusal("headers_too_large", "the head is larger than it may be")
        elif version not in {"1.0", "1.1"}:
            refusal = Refusal("http_version", f"HTTP/{version} is not spoken here")
        elif self._twice:
            words = f"the header {self._twice.decode()} stands twice"
            refusal = Refusal("bad_http", words)
        elif not _is_host(request.headers.get(b"host"), request):
            refusal = Refusal("bad_http", "there has to be one Host header, with a host")
        elif self._chunked and request.http_10:
            refusal = Refusal("bad_http", "HTTP/1.0 has no transfer encodings")
        elif self._chunked and _word(request, b"transfer-encoding") != b"chunked":
            refusal = Refusal("bad_http", "the only transfer encoding is chunked")
        if refusal is not None:
            request.keep_alive = False
        return refusal

    def _body_refusal(self, request: Request) -> Refusal | None:
        if request.length is not None and request.length > self._most:
            return Refusal("body_too_large", f"the body is larger than {self._most} bytes")
        if b"content-encoding" not in request.headers:
            return None
        if _word(request, b"content-encoding") not in {b"", b"identity"}:
            return Refusal("unsupported_encoding", "send the body uncompressed")
        return None

    def _refuse_body(self, request: Request) -> None:
        """Skip a small body to its end; of a large one, or one held back, read nothing more."""
        small = not self._chunked and (request.length or 0) <= DISCARDED_MOST
        self._discard = True
        if not small or request.expects_continue or not request.keep_alive:
            self._hand_over_last()

    def _refuse(self, code: str, words: str, retry_after: int | None = None) -> None:
        """Refuse what is being read, and everything after it."""
        if self._over:
            return
        request = self._request = self._request or Request()
        request.refusal = Refusal(code, words, None, retry_after)
        self._hand_over_last()

    def _hand_over_last(self) -> None:
        request = self._request
        if self._over or request is None:
            return
        self._over = True
        request.keep_alive = False
        self._drop_body()
        self._reset()
        self._receiver.request_is_here(request)


def _is_host(value: bytes | None, request: Request) -> bool:
    """Say whether a Host header may be so; HTTP/1.0 has none."""
    return request.http_10 if value is None else _HOST.fullmatch(value) is not None


def _word(request: Request, name: bytes) -> bytes:
    return request.headers.get(name, b"").strip().lower()
