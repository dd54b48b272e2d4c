"""Bytes that clients send, and how they are spoilt."""

import itertools
import json
import random

from tests.fakes.rawclient import chat, get, post

BODY = json.dumps(chat()).encode()
CHUNKED = b"Transfer-Encoding: chunked"


def chunks(body: bytes, *cuts: int) -> bytes:
    """Return a body in chunks."""
    places = [0, *cuts, len(body)]
    parts = (body[begin:end] for begin, end in itertools.pairwise(places))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n"


FORM = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n'
ONES = (
    post(BODY),
    post(chat(stream=True)),
    post(BODY, b"Connection: close"),
    post(BODY, b"Connection: keep-alive", version=b"1.0"),
    post(BODY, b"Expect: 100-continue"),
    post(BODY, b"Connection: Upgrade", b"Upgrade: h2c"),
    post(chunks(BODY) + b"\r\n", CHUNKED),
    post(chunks(BODY, 5, 9) + b"X-Trailer: a\r\nY: b\r\n\r\n", CHUNKED),
    post(chunks(BODY).replace(b"\r\n", b";a=b\r\n", 1) + b"\r\n", CHUNKED),
    post(chunks(BODY) + b"\r\n", CHUNKED, b"Upgrade: websocket", b"Connection: upgrade"),
    post(BODY, key="llmgw_x_y"),
    post(BODY, path=b"http://gateway/v1/completions?x=y"),
    post(FORM, path=b"/v1/audio/transcriptions").replace(
        b"application/json", b"multipart/form-data; boundary=x"
    ),
    post(get(b"/v1/inner")),
    get(b"/v1/models", b"X-A: b", b"Accept: */*"),
    get(b"/v1/models/m%2Fn"),
    get(b"/healthz", key=None, method=b"HEAD"),
)
"""Requests that are taken or refused in one way."""

PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b"\x0b",
    b"\x80",
    b":",
    b",",
    b";",
    b"0",
    b"-1",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"\r\n ",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length : 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Host: other\r\n",
    b"Expect: 100-continue\r\n",
    b" HTTP/1.1",
    b"HTTP/1.0",
    b"fffffffffffffffff",
    get(b"/v1/smuggled"),
)


VALUES = (
    b"null",
    b"true",
    b"1e999",
    b"-1E-999",
    b"123456789012345678901234567890",
    b'"\\ud800"',
    b'"\xff"',
    b'"}{]["',
    b"{}",
    b"[]",
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 70 + b"1" + b"}" * 70,
)
"""What a member of a body is, or its options: from what is wanted to what cannot be decoded."""
NAMES = (
    b"include_usage",
    b"include\\u005fusage",
    b"\\ud800",
    b"a",
    b"stream",
    b"stream_options",
    b"return_progress",
    b"model",
    b"MODEL",
    b"messages",
    b"n",
)


def body(rng: random.Random) -> bytes:
    """Return a body whose stream has options, which the gateway may have to edit."""
    members = [
        b'"model":"m"',
        rng.choice((b'"stream":true', b'"stream" : true', b'"stream":false')),
    ]
    members.append(b'"stream_options":' + _value(rng, 2))
    members += [_member(rng, 1) for _ in range(rng.choice((0, 0, 1, 2)))]
    rng.shuffle(members)
    return b"{" + rng.choice((b",", b" ,\n")).join(members) + b"}"


def _member(rng: random.Random, depth: int) -> bytes:
    return b'"' + rng.choice(NAMES) + b'":' + _value(rng, depth)


def _value(rng: random.Random, depth: int) -> bytes:
    if not depth or rng.random() < 0.3:
        return rng.choice(VALUES)
    return b"{" + b",".join(_member(rng, depth - 1) for _ in range(rng.randint(0, 3))) + b"}"


def example(seed: int) -> bytes:
    """Return what a client sends: one to three requests, spoilt in up to four places."""
    rng = random.Random(seed)
    if rng.random() < 0.25:
        paths = (b"/v1/chat/completions", b"/v1/completions", b"/v1/responses", b"/v1/embeddings")
        return b"".join(post(body(rng), path=rng.choice(paths)) for _ in range(rng.randint(1, 3)))
    data = b"".join(rng.choice(ONES) for _ in range(rng.randint(1, 3)))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        data = _spoilt(data, rng)
    return data


def parts(data: bytes, seed: int) -> list[bytes]:
    """Return the parts in which it is sent."""
    rng = random.Random(f"parts of {seed}")
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 2, 8))))
    places = [0, *cuts, len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places) if begin < end]


def _spoilt(data: bytes, rng: random.Random) -> bytes:
    at = _place(data, rng)
    match rng.randrange(8):
        case 0:
            return data[:at] + data[at + rng.randint(1, 4) :]
        case 1 | 2:
            return data[:at] + rng.choice(PIECES) + data[at:]
        case 3:
            return data[:at] + rng.choice(PIECES) + data[at + rng.randint(1, 2) :]
        case 4:
            return data[:at] + rng.randbytes(rng.randint(1, 3)) + data[at:]
        case 5:
            return data[:at]
        case 6:
            begin = _place(data, rng)
            return data[:at] + data[begin : begin + rng.randint(1, 60)] + data[at:]
        case _:
            lines = data.split(b"\r\n")
            one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            return b"\r\n".join(lines)


def _place(data: bytes, rng: random.Random) -> int:
    """Return a place, in half of the cases at a border of lines: there is what is read apart."""
    at = rng.randrange(len(data) + 1)
    border = data.find(b"\r\n", at)
    return border + rng.choice((0, 1, 2)) if border >= 0 and rng.random() < 0.5 else at
