"""Reading requests: the same whatever parts they arrive in, and nothing makes it raise."""

import itertools
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.proxy.bodies import Bodies
from llmgw.gateway.proxy.requests import DISCARDED_MOST, Request, RequestReader
from llmgw.gateway.refusals import Refusal

LIMIT = 200_000


class Seen:
    """Keeps what a reader hands on."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.begun = 0
        self.requests: list[Request] = []
        self.refusal = refusal

    def request_begins(self) -> None:
        self.begun += 1

    def head_is_here(self, request: Request) -> Refusal | None:
        return self.refusal

    def request_is_here(self, request: Request) -> None:
        self.requests.append(request)


def read(*parts: bytes, refusal: Refusal | None = None) -> Seen:
    seen = Seen(refusal)
    reader = RequestReader(seen, LIMIT, Bodies())
    for part in parts:
        reader.feed(part)
    return seen


def shown(seen: Seen) -> list[tuple[object, ...]]:
    return [
        (r.method, r.target, r.body, r.keep_alive, r.refusal and r.refusal.code, r.headers)
        for r in seen.requests
    ]


BODY = b'{"model":"m"}'
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
PLAIN = HEAD + b"Authorization: Bearer k\r\nContent-Length: 13\r\n\r\n" + BODY
CHUNKED = (
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n5\r\n"
    + BODY[:5]
    + b"\r\n8;a=b\r\n"
    + BODY[5:]
    + b"\r\n0\r\nX: y\r\n\r\n"
)
UPGRADE = HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 13\r\n\r\n" + BODY
GET = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
STREAM = PLAIN + GET + CHUNKED + UPGRADE + PLAIN + UPGRADE.replace(b"POST", b"GET")


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
def test_requests_are_the_same_whatever_parts_they_come_in(cuts):
    places = [0, *sorted(set(cuts)), len(STREAM)]
    parts = [STREAM[a:b] for a, b in itertools.pairwise(places)]
    whole = shown(read(STREAM))
    assert shown(read(*parts)) == whole
    assert [body for _, _, body, *_ in whole] == [BODY, b"", BODY, BODY, BODY, BODY]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_bytes_make_it_raise(parts):
    for begin in (b"", PLAIN, HEAD, CHUNKED[:-7]):
        seen = read(begin, *parts)
        assert len([r for r in seen.requests if r.refusal]) <= 1


def test_after_a_refusal_of_the_framing_everything_is_ignored():
    seen = read(HEAD + b"Content-Length: x\r\n\r\n" + PLAIN, PLAIN)
    assert shown(seen) == [("", b"/v1/completions", b"", False, "bad_http", {b"host": b"x"})]


def test_after_a_request_that_closes_everything_is_ignored():
    closing = PLAIN.replace(b"Host: x", b"Host: x\r\nConnection: close")
    assert [r.keep_alive for r in read(closing + PLAIN, PLAIN).requests] == [False]
    old = PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0")
    assert [(r.keep_alive, r.http_10) for r in read(old, PLAIN).requests] == [(False, True)]


def test_a_refused_request_with_a_small_body_is_skipped_and_the_next_one_is_read():
    no = Refusal("invalid_api_key", "no")
    seen = read(PLAIN + PLAIN, refusal=no)
    assert [(r.refusal, r.body, r.keep_alive) for r in seen.requests] == [(no, b"", True)] * 2


def test_a_refused_request_with_a_large_or_endless_body_is_the_last():
    no = Refusal("invalid_api_key", "no")
    large = HEAD + b"Content-Length: %d\r\n\r\n" % (DISCARDED_MOST + 1)
    for head in (large, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"):
        seen = read(head, b"x" * 10, PLAIN, refusal=no)
        assert [(r.refusal, r.keep_alive) for r in seen.requests] == [(no, False)]


def test_a_body_is_held_up_to_its_limit_and_not_beyond():
    fits = HEAD + b"Content-Length: %d\r\n\r\n" % LIMIT
    assert len(read(fits, b"x" * LIMIT).requests[0].body) == LIMIT
    reader = RequestReader(seen := Seen(), LIMIT, Bodies())
    reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        reader.feed(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
    assert reader.held == 0
    assert [r.refusal and r.refusal.code for r in seen.requests] == ["body_too_large"]


def test_a_body_in_tiny_chunks_takes_about_its_own_size():
    reader = RequestReader(seen := Seen(), LIMIT, bodies := Bodies())
    reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    chunks = b"2\r\nab\r\n" * 10_000
    tracemalloc.start()
    reader.feed(chunks)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reader.held, bodies.held) == (20_000, 20_000)
    assert held < 2 * 20_000
    reader.feed(b"0\r\n\r\n")
    assert seen.requests[0].body == b"ab" * 10_000


def test_bytes_of_bodies_are_given_back_once_however_they_end():
    half = HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 50
    for ends in (b"", b"x" * 50 + b"\0", b"x" * 50 + half):
        reader = RequestReader(seen := Seen(), LIMIT, bodies := Bodies())
        reader.feed(half + ends)
        assert bodies.held in {50, 100, 150}
        reader.stop()
        for request in seen.requests:
            request.drop()
            request.drop()
        assert bodies.held == 0


def test_a_request_is_told_to_begin_once():
    assert read(PLAIN[:3], PLAIN[3:] + UPGRADE + GET[:4]).begun == 3
