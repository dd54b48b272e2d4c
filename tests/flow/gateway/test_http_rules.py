"""HTTP as the gateway takes it: every rule by the raw bytes that it is about."""

import asyncio
import json

import pytest

from llmgw.gateway.accounting import NO_MODEL
from llmgw.gateway.door import most_connections
from llmgw.gateway.frames import TableFrame
from llmgw.gateway.table import default_config
from tests.fakes.engine import WORDS, Call, FakeEngine, answer, prefill
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.flow.gateway.conftest import Connect, StartGateway
from tests.waiting import wait_until

BODY = json.dumps(chat()).encode()
CONTENT = "".join(WORDS)


@pytest.fixture
async def gateway(start_gateway: StartGateway, engine: FakeEngine) -> GatewayHere:
    return await start_gateway(table(route([engine.port]), request_body_bytes=1 << 20))


@pytest.fixture
async def client(gateway: GatewayHere, connect: Connect) -> RawClient:
    return await connect(gateway)


async def test_one_connection_carries_requests_one_after_the_other(client, engine):
    for _ in range(3):
        reply = await client.ask(post(chat()))
        assert reply.status == 200
        assert reply.json["choices"][0]["message"]["content"] == CONTENT
    assert engine.opened == 1


async def test_pipelined_requests_are_answered_in_their_order(client, engine):
    turns = [asyncio.Event() for _ in range(3)]

    async def behave(call: Call) -> None:
        number = call.json["number"]
        turns[number].set()
        if number == 0:
            await asyncio.sleep(0.05)
        call.reply({"number": number})

    engine.behave = behave
    await client.send(b"".join(post(chat(number=number)) for number in range(3)))
    assert [(await client.reply()).json["number"] for _ in range(3)] == [0, 1, 2]


async def test_a_stream_and_what_is_pipelined_behind_it_do_not_mix(client):
    await client.send(post(chat(stream=True)) + post(chat()) + get(b"/v1/models"))
    assert (await client.reply()).events[-1] == "[DONE]"
    assert (await client.reply()).json["object"] == "chat.completion"
    assert (await client.reply()).json["data"][0]["id"] == "m"


async def test_more_than_32_waiting_requests_are_not_taken_and_the_connection_ends_in_order(
    client, engine
):
    release = asyncio.Event()

    async def behave(call: Call) -> None:
        await release.wait()
        await answer(call)

    engine.behave = behave
    await client.send(post(chat()))
    await wait_until(lambda: engine.running)
    await client.send(get(b"/v1/models") * 100)
    release.set()
    replies = [await client.reply() for _ in range(1 + 33)]
    assert [reply.status for reply in replies] == [200] * 34
    assert replies[-1].headers["connection"] == "close"
    assert await client.ended() == b""


async def test_a_request_may_come_byte_by_byte(client):
    request = post(chat())
    reply = await client.ask(*(request[at : at + 1] for at in range(len(request))))
    assert reply.status == 200


async def test_a_chunked_request_reaches_the_engine_whole_with_a_length(client, engine):
    chunks = b"%x\r\n%b\r\n%x;name=value\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (
        10,
        BODY[:10],
        len(BODY) - 10,
        BODY[10:],
    )
    head = post(b"", b"Transfer-Encoding: chunked")
    assert (await client.ask(head, chunks)).status == 200
    assert engine.calls[0].body == BODY
    assert engine.calls[0].headers["content-length"] == str(len(BODY))
    assert "x-trailer" not in engine.calls[0].headers
    assert (await client.ask(post(chat()))).status == 200


@pytest.mark.parametrize(
    "head",
    [
        post(BODY, b"X-A: " + b"a" * 200_000),
        post(BODY, *(b"X-%d: a" % number for number in range(101))),
        b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["one line", "many lines", "target"],
)
async def test_a_head_beyond_its_limits_is_refused(head, client):
    reply = await client.ask(head)
    assert (reply.status, reply.code) == (431, "headers_too_large")
    assert await client.ended() == b""


async def test_a_head_without_an_end_is_refused_before_it_fills_memory(client):
    await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nX-A: ")
    for _ in range(8):
        await client.send(b"a" * 100_000)
    assert (await client.reply()).status == 431


async def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(client, engine):
    reply = await client.ask(post(b"", length=(1 << 20) + 1))
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert engine.calls == []


async def test_a_client_that_sends_a_refused_body_still_reads_the_refusal(client):
    head = post(b"", length=4 << 20)
    await client.send(head)
    for _ in range(32):
        client.writer.write(b"x" * (1 << 17))
    assert (await client.reply()).status == 413


async def test_a_chunked_body_is_refused_where_it_grows_too_large(client, engine):
    await client.send(post(b"", b"Transfer-Encoding: chunked"))
    for _ in range(20):
        client.writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    assert (await client.reply()).status == 413
    assert engine.calls == []


async def test_framing_may_not_outweigh_the_body(client):
    await client.send(post(b"", b"Transfer-Encoding: chunked"), b"5;")
    for _ in range(40):
        client.writer.write(b"x" * 65536)
    assert (await client.reply()).status == 413


async def test_a_body_up_to_the_limit_passes(start_gateway, engine, connect):
    gateway = await start_gateway(table(route([engine.port])))
    client = await connect(gateway)
    body = chat(padding="x" * (8 << 20))
    assert (await client.ask(post(body))).status == 200
    assert engine.calls[0].json == body


async def test_expect_continue_is_answered_before_the_body_is_sent(client):
    await client.send(post(b"", b"Expect: 100-continue", length=len(BODY)))
    assert (await client.reply()).status == 100
    assert (await client.ask(BODY)).status == 200


async def test_a_pipelined_request_is_told_to_send_its_body_when_its_turn_comes(client, engine):
    release = asyncio.Event()

    async def behave(call: Call) -> None:
        await release.wait()
        await answer(call)

    engine.behave = behave
    await client.send(post(chat()))
    await wait_until(lambda: engine.running)
    await client.send(post(b"", b"Expect: 100-continue", length=len(BODY)))
    release.set()
    assert (await client.reply()).status == 200
    assert (await client.reply()).status == 100
    assert (await client.ask(BODY)).status == 200


async def test_a_body_that_is_sent_without_the_word_is_taken_and_no_word_is_said(client, engine):
    request = post(BODY, b"Expect: 100-continue")
    await client.send(post(chat()) + request + post(chat()))
    assert [(await client.reply()).status for _ in range(3)] == [200] * 3


async def test_bodies_beyond_what_a_worker_may_hold_are_refused_until_others_are_gone(
    gateway, connect, engine
):
    gateway.front.bodies._most = 100_000
    slow, other, last = [await connect(gateway) for _ in range(3)]
    await slow.send(post(b"", length=90_000), b"x" * 80_000)
    await wait_until(lambda: gateway.front.bodies.held == 80_000)
    refused = await other.ask(post(b"y" * 30_000))
    assert (refused.status, refused.code) == (503, "bodies_full")
    assert refused.headers["retry-after"] == "2"
    assert gateway.front.bodies.held == 80_000
    slow.abort()
    await wait_until(lambda: gateway.front.bodies.held == 0)
    assert (await last.ask(post(chat(padding="z" * 200_000)))).status == 200  # one is always let in
    assert gateway.front.bodies.held == 0


async def test_the_settings_say_what_a_worker_may_hold(start_gateway, connect, engine):
    gateway = await start_gateway(table(route([engine.port]), held_bytes=50_000))
    slow, other = await connect(gateway), await connect(gateway)
    await slow.send(post(b"", length=90_000), b"x" * 40_000)
    await wait_until(lambda: gateway.front.bodies.held == 40_000)
    assert (await other.ask(post(b"y" * 30_000))).code == "bodies_full"
    gateway.front.take(TableFrame(config=default_config(), received=True, current=True))
    last = await connect(gateway)
    assert (await last.ask(post(chat(padding="z" * 200_000)))).status == 200
    slow.abort()


async def test_no_body_is_counted_any_more_however_its_request_ended(gateway, connect, engine):
    client = await connect(gateway)
    for body in (BODY, b"{", b'{"model":"other"}'):
        await client.ask(post(body))
    await client.ask(post(chat(stream=True)))
    assert gateway.front.bodies.held == 0
    engine.behave = prefill
    await client.send(post(chat()) * 3)
    await wait_until(lambda: gateway.front.bodies.held == 3 * len(BODY))
    client.abort()
    await wait_until(lambda: gateway.front.bodies.held == 0)


async def test_a_refused_client_is_not_told_to_send_its_body(client):
    reply = await client.ask(post(b"", b"Expect: 100-continue", length=len(BODY), key="llmgw_x_y"))
    assert reply.status == 401
    assert await client.ended() == b""


async def test_a_refusal_with_a_small_body_keeps_the_connection(client):
    assert (await client.ask(post(BODY, key="llmgw_x_y"))).status == 401
    assert (await client.ask(post(BODY))).status == 200


H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")


async def test_an_offer_to_upgrade_is_ignored(client, engine):
    assert (await client.ask(get(b"/v1/models", *H2C))).status == 200
    assert (await client.ask(post(BODY, *H2C))).status == 200
    assert engine.calls[0].body == BODY
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    request = post(chunks, *H2C, b"Transfer-Encoding: chunked")
    assert (await client.ask(request[:150], request[150:-20], request[-20:])).status == 200
    assert [call.body for call in engine.calls] == [BODY, BODY]


async def test_the_body_behind_an_offer_to_upgrade_is_never_read_as_a_request(client, engine):
    inner = get(b"/v1/models")
    reply = await client.ask(post(inner, *H2C) + post(BODY))
    assert (reply.status, reply.code) == (400, "invalid_json")
    assert (await client.reply()).json["object"] == "chat.completion"


async def test_the_engine_sees_neither_an_upgrade_nor_other_headers_of_the_client(client, engine):
    lines = (b"X-Request-Id: mine", b"X-Forwarded-For: 127.0.0.1", b"Cookie: a=b", b"TE: trailers")
    reply = await client.ask(post(BODY, *H2C, *lines, b"Accept: text/event-stream"))
    seen = engine.calls[0].headers
    assert set(seen) == {
        "accept", "authorization", "content-length", "content-type", "host", "x-request-id",
    }  # fmt: skip
    assert seen["authorization"] == "Bearer engine-key-of-m-0"
    assert seen["accept"] == "text/event-stream"
    assert seen["x-request-id"] == reply.headers["x-request-id"] != "mine"


async def test_http_1_0_gets_a_plain_body_and_the_end_of_the_connection(client):
    reply = await client.ask(post(chat(stream=True), version=b"1.0"))
    assert reply.status == 200
    assert "transfer-encoding" not in reply.headers
    assert reply.events[-1] == "[DONE]"


async def test_a_client_that_asks_to_close_gets_its_reply_and_the_end(client):
    reply = await client.ask(post(BODY, b"Connection: close"))
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await client.ended() == b""


async def test_head_has_no_body(client):
    reply = await client.ask(get(b"/healthz", method=b"HEAD"), head_only=True)
    assert reply.status == 200
    assert (await client.ask(get(b"/v1/models"))).status == 200


async def test_a_compressed_body_is_refused(client, engine):
    reply = await client.ask(post(BODY, b"Content-Encoding: gzip"))
    assert (reply.status, reply.code) == (415, "unsupported_encoding")
    assert (await client.ask(post(BODY, b"Content-Encoding: identity"))).status == 200
    assert len(engine.calls) == 1


@pytest.mark.parametrize("part", [b"POST /v1", post(BODY)[:-5]], ids=["head", "body"])
async def test_a_request_that_does_not_arrive_in_time_is_refused(
    part, start_gateway, engine, connect
):
    gateway = await start_gateway(table(route([engine.port]), client_timeout=0.3))
    client = await connect(gateway)
    reply = await client.ask(part)
    assert (reply.status, reply.code) == (408, "request_timeout")
    assert await client.ended() == b""


async def test_a_connection_beyond_those_that_a_worker_has_files_for_is_told_so_and_closed(
    start_gateway, engine, connect
):
    gateway = await start_gateway(table(route([engine.port])), connections=2)
    clients = [await connect(gateway) for _ in range(2)]
    assert [(await one.ask(post(chat()))).status for one in clients] == [200, 200]
    late = await connect(gateway)
    reply = await late.ask(post(chat()))
    assert (reply.status, reply.code) == (503, "too_many_connections")
    assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
    assert await late.ended() == b""
    assert gateway.front.books._meters[NO_MODEL].errors == {"too_many_connections": 1}
    clients[0].abort()
    await wait_until(lambda: len(gateway.front.connections) == 1)
    assert (await (await connect(gateway)).ask(post(chat()))).status == 200


def test_a_worker_takes_fewer_connections_than_it_has_files_for():
    assert most_connections(1024) == 460
    assert most_connections(1) == 1
    assert most_connections(-1) is None


async def test_an_idle_connection_is_closed_without_a_word(start_gateway, engine, connect):
    gateway = await start_gateway(table(route([engine.port]), client_timeout=0.3))
    client = await connect(gateway)
    assert (await client.ask(post(BODY))).status == 200
    assert await client.ended() == b""


async def test_a_slow_reply_is_no_idle_connection(start_gateway, engine, connect):
    async def behave(call: Call) -> None:
        await asyncio.sleep(1.0)
        await answer(call)

    engine.behave = behave
    gateway = await start_gateway(table(route([engine.port]), client_timeout=0.3))
    assert (await (await connect(gateway)).ask(post(BODY))).status == 200


async def test_a_client_that_asks_and_never_reads_costs_little_and_not_for_long(
    start_gateway, engine, connect
):
    gateway = await start_gateway(table(route([engine.port]), client_timeout=0.5))
    client = await connect(gateway)
    client.writer.transport.pause_reading()
    largest = 0

    async def ask_on() -> None:
        while True:
            await client.send(get(b"/v1/" + b"x" * 8000) * 100)

    def over() -> bool:
        nonlocal largest
        sizes = [one._transport.get_write_buffer_size() for one in gateway.front.connections]
        largest = max(largest, *sizes, 0)
        return not sizes

    asking = asyncio.ensure_future(ask_on())
    await wait_until(lambda: gateway.front.connections)
    await wait_until(over)
    await asyncio.gather(asking, return_exceptions=True)
    assert 0 < largest < 1 << 18


async def test_lines_of_the_engine_that_are_about_itself_do_not_reach_the_client(client, engine):
    async def behave(call: Call) -> None:
        lines = (
            b"Server: llama.cpp\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n"
            b"Access-Control-Allow-Origin: *\r\nSet-Cookie: a=b\r\nX-Request-Id: theirs\r\n"
            b"Connection: close , X-Named\r\nX-Named: hop\r\nX-Kept: yes\r\n"
        )
        call.reply({}, headers=lines)

    engine.behave = behave
    reply = await client.ask(post(BODY))
    assert set(reply.headers) == {"content-type", "content-length", "x-kept", "x-request-id"}
    assert reply.headers["x-request-id"].startswith("req-test-")
