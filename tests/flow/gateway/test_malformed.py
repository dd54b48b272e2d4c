"""Requests that could be read in two ways, or in none: one answer, known to its last header."""

import json

import pytest

from llmgw.gateway.refusals import CODES
from tests.fakes.engine import FakeEngine
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient, Reply, chat, get, post
from tests.flow.gateway.conftest import Connect, StartGateway

BODY = json.dumps(chat()).encode()
CHUNKED = b"Transfer-Encoding: chunked"


@pytest.fixture
async def gateway(start_gateway: StartGateway, engine: FakeEngine) -> GatewayHere:
    return await start_gateway(table(route([engine.port])))


@pytest.fixture
async def client(gateway: GatewayHere, connect: Connect) -> RawClient:
    return await connect(gateway)


def chunked(body: bytes) -> bytes:
    return post(body, CHUNKED)


SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"

AMBIGUOUS = {
    "length and chunks": post(
        b"0\r\n\r\n" + SMUGGLED, b"Content-Length: 5", b"Transfer-Encoding: chunked"
    ),
    "chunks and length": post(
        b"0\r\n\r\n" + SMUGGLED, b"Transfer-Encoding: chunked", b"Content-Length: 5"
    ),
    "two lengths that differ": post(BODY, b"Content-Length: %d" % len(BODY), b"Content-Length: 3"),
    "two lengths that agree": post(BODY, b"Content-Length: 3", b"Content-Length: 3"),
    "a list of lengths": post(BODY, b"Content-Length: 3, 3"),
    "a signed length": post(BODY, b"Content-Length: +%d" % len(BODY)),
    "an endless length": post(BODY, b"Content-Length: 99999999999999999999"),
    "no length": post(BODY, b"Content-Length: "),
    "another transfer encoding": post(b"0\r\n\r\n", b"Transfer-Encoding: xchunked"),
    "chunked and then another": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked, identity"),
    "compressed chunks": post(b"0\r\n\r\n", b"Transfer-Encoding: gzip, chunked"),
    "chunked twice": post(
        b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"
    ),
    "space before the colon": post(BODY, b"Content-Length : %d" % len(BODY)),
    "a folded line": post(BODY, b"X-A: a\r\n b"),
    "a bare LF": post(BODY, b"X-A: a\nX-B: b"),
    "only LF": post(BODY).replace(b"\r\n", b"\n"),
    "a bare CR": post(BODY, b"X-A: a\rb"),
    "NUL": post(BODY, b"X-A: a\0b"),
    "a control character": post(BODY, b"X-A: a\x1b[31m"),
    "no Host": post(BODY).replace(b"Host: gateway\r\n", b""),
    "two Hosts": post(BODY, b"Host: other"),
    "a name that is no token": post(BODY, b"X(A): a"),
    "chunks in HTTP/1.0": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked", version=b"1.0"),
    "a chunk size in another base": post(
        b"0x5\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"
    ),
    "a chunk longer than it says": post(b"2\r\nhello\r\n0\r\n\r\n", CHUNKED),
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a proxy request": b"CONNECT engine:80 HTTP/1.1\r\nHost: engine\r\n\r\n",
    "identity and then chunked": post(b"0\r\n\r\n", b"Transfer-Encoding: identity", CHUNKED),
    "an empty transfer encoding": post(b"0\r\n\r\n", b"Transfer-Encoding:"),
    "a list of transfer encodings": post(b"0\r\n\r\n", b"Transfer-Encoding: ,chunked"),
    "a transfer encoding in quotes": post(b"0\r\n\r\n", b'Transfer-Encoding: "chunked"'),
    "a control character before it": post(b"0\r\n\r\n", b"Transfer-Encoding: \x0bchunked"),
    "a length in another base": post(BODY, b"Content-Length: 0x5"),
    "a length with a space": post(BODY, b"Content-Length: 5 5"),
    "a length below zero": post(BODY, b"Content-Length: -1"),
    "a length in other digits": post(BODY, "Content-Length: \N{ARABIC-INDIC DIGIT FIVE}".encode()),
    "a chunk size that overflows": chunked(b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "a chunk size below zero": chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a space": chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
    "no chunk size": chunked(b"\r\nhello\r\n0\r\n\r\n"),
    "a bare LF behind a chunk size": chunked(b"5\nhello\r\n0\r\n\r\n"),
    "a bare LF behind a chunk": chunked(b"5\r\nhello\n0\r\n\r\n"),
    "a bare LF in an extension": chunked(b"5;a=b\nhello\r\n0\r\n\r\n"),
    "a bare CR in an extension": chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "a bare LF in a trailer": chunked(b"5\r\nhello\r\n0\r\nA: b\n\r\n"),
    "a length in a trailer": chunked(b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "a trailer that is none": chunked(b"5\r\nhello\r\n0\r\nA\r\n\r\n"),
    "two keys": post(BODY, b"Authorization: Bearer other"),
    "two types": post(BODY, b"Content-Type: text/plain"),
    "a Host with a space": post(BODY).replace(b"Host: gateway", b"Host: a b"),
    "a Host with a path": post(BODY).replace(b"Host: gateway", b"Host: a/b"),
    "a Host with a user": post(BODY).replace(b"Host: gateway", b"Host: u@a"),
    "a line without a colon": post(BODY, b"X-A"),
    "a line without a name": post(BODY, b": a"),
    "a folded first line": post(BODY).replace(b"\r\nHost", b"\r\n Host"),
    "CR CR LF": post(BODY).replace(b"\r\n\r\n", b"\r\r\n\r\r\n"),
    "a method in small letters": post(BODY).replace(b"POST", b"post"),
    "a method that is none": post(BODY).replace(b"POST", b"P@ST"),
    "a tab in the first line": post(BODY).replace(b"POST /", b"POST\t/"),
    "a space in the target": post(BODY).replace(b"/v1/", b"/v1 /"),
    "a NUL in the target": post(BODY).replace(b"/v1/", b"/v1\0/"),
    "a target of other bytes": post(BODY).replace(b"/v1/", b"/v1\xff/"),
    "no target": get(b""),
    "an authority as target": get(b"host:80"),
    "a version that is none": post(BODY, version=b"1.1x"),
    "a version without a dot": post(BODY, version=b"1"),
    "another protocol": post(BODY).replace(b"HTTP/1.1", b"ICE/1.0"),
}


def is_refusal(reply: Reply, status: int, code: str) -> bool:
    """Say whether a reply is the gateway's own word, the last on its connection, and no more."""
    error = reply.json["error"]
    assert set(reply.headers) == {"content-type", "content-length", "connection", "x-request-id"}
    assert (reply.headers["content-type"], reply.headers["connection"]) == (
        "application/json",
        "close",
    )
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == (CODES[code][1], None)
    assert error["message"].isprintable()
    return (reply.status, error["code"]) == (status, code)


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_what_could_be_read_in_two_ways_is_refused_once_and_the_connection_ends(
    name, client, engine
):
    assert is_refusal(await client.ask(AMBIGUOUS[name] + SMUGGLED), 400, "bad_http")
    assert await client.ended() == b""
    assert engine.calls == []


@pytest.mark.parametrize(
    "request_bytes", [post(BODY, version=b"2.0"), b"GET /v1/models\r\n\r\n"], ids=["2.0", "0.9"]
)
async def test_other_versions_are_refused(request_bytes, client):
    assert is_refusal(await client.ask(request_bytes), 505, "http_version")
    assert await client.ended() == b""
