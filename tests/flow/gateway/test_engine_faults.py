"""Engines that break, stall or talk nonsense: what the client sees of it, and what it does not."""

import asyncio
import errno
import json
import os
import socket

import pytest

from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.model.gateway import Route
from tests.fakes.engine import WORDS, Call, FakeEngine, answer, chat_chunk, loading, prefill, reset
from tests.fakes.gateway import endpoint, route, table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.conftest import Connect, StartGateway
from tests.waiting import wait_until

CONTENT = "".join(WORDS)
PLAIN = post(chat())
STREAM = post(chat(stream=True))


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
async def client(start_gateway: StartGateway, engine: FakeEngine, connect: Connect) -> RawClient:
    return await connect(await start_gateway(table(route([engine.port]))))


def content(reply) -> str:
    return reply.json["choices"][0]["message"]["content"]


# Before the first byte: another engine, and nobody notices.


@pytest.mark.parametrize("fault", [reset, loading], ids=["reset", "loading"])
async def test_a_fault_before_the_first_byte_is_answered_by_another_engine(
    fault, start_engine, start_gateway, connect
):
    bad, good = await start_engine(fault), await start_engine()
    gateway = await start_gateway(table(route([bad.port, good.port])))
    client = await connect(gateway)
    for _ in range(4):
        assert content(await client.ask(PLAIN)) == CONTENT
    assert len(good.calls) == 4
    assert len(bad.calls) <= 1  # taken out at once, and its back-off is longer than this test
    assert [replica for replica, _ in gateway.down] in ([], ["m-0"])
    assert fault is not loading or not gateway.down  # that one can be reached


async def test_a_stream_whose_engine_dies_after_its_head_is_answered_by_another(
    start_engine, start_gateway, connect
):
    async def die_in_prefill(call: Call) -> None:
        call.begin_stream()
        await asyncio.sleep(0.05)
        call.abort()

    bad, good = await start_engine(die_in_prefill), await start_engine()
    gateway = await start_gateway(
        table(route([bad.port, good.port]), route([bad.port], model="only"))
    )
    client = await connect(gateway)
    replies = [await client.ask(STREAM) for _ in range(4)]
    assert all(reply.events[-1] == "[DONE]" for reply in replies)
    alone = await client.ask(post(chat("only", stream=True)))
    assert (alone.status, alone.code) == (503, "engine_unreachable")


async def test_an_engine_that_cannot_be_connected_to_is_passed_over(
    start_engine, start_gateway, connect
):
    good = await start_engine()
    gateway = await start_gateway(table(route([closed_port(), good.port])))
    client = await connect(gateway)
    for _ in range(5):
        assert content(await client.ask(PLAIN)) == CONTENT
    assert len(gateway.down) <= 1


async def test_where_no_engine_can_be_reached_the_refusal_says_why_and_when_to_retry(
    start_gateway, connect
):
    gateway = await start_gateway(table(route([closed_port()])))
    client = await connect(gateway)
    reply = await client.ask(PLAIN)
    assert (reply.status, reply.code) == (503, "engine_unreachable")
    assert int(reply.headers["retry-after"]) >= 1
    assert "Connection refused" in reply.json["error"]["message"]
    assert gateway.down == [("m-0", "no connection: Connection refused")]
    assert (await client.ask(PLAIN)).status == 503
    assert len(gateway.down) == 1  # the second request did not even try


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS])
async def test_what_the_gateways_own_machine_lacks_is_not_called_an_engines_fault(
    start_gateway, connect, engine, monkeypatch, number
):
    async def connects(*_: object) -> EngineConnection:
        raise OSError(number, os.strerror(number))

    gateway = await start_gateway(table(route([engine.port])))
    client = await connect(gateway)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "connect", connects)
        reply = await client.ask(PLAIN)
    assert (reply.status, reply.code) == (503, "gateway_exhausted")
    assert int(reply.headers["retry-after"]) >= 1
    assert os.strerror(number) in reply.json["error"]["message"]
    assert not gateway.down
    assert (await client.ask(PLAIN)).status == 200


async def test_a_host_whose_name_cannot_be_looked_up_is_an_engine_that_cannot_be_reached(
    start_gateway, connect
):
    one = endpoint(80, "m-0", host="a" * 70 + ".example")
    gateway = await start_gateway(table(Route(model="m", endpoints=(one,), wanted=1)))
    reply = await (await connect(gateway)).ask(PLAIN)
    assert (reply.status, reply.code) == (503, "engine_unreachable")
    assert gateway.down


async def test_one_request_is_sent_to_three_engines_at_most(start_engine, start_gateway, connect):
    engines = [await start_engine(reset) for _ in range(5)]
    gateway = await start_gateway(table(route([one.port for one in engines])))
    reply = await (await connect(gateway)).ask(PLAIN)
    assert reply.status == 503
    assert sum(len(one.calls) for one in engines) == 3


async def test_an_engine_that_answers_again_refuses_nobody_while_the_probe_waits_for_its_answer(
    start_engine, start_gateway, connect
):
    port = closed_port()
    gateway = await start_gateway(table(route([port])))
    client = await connect(gateway)
    assert (await client.ask(PLAIN)).status == 503
    release = asyncio.Event()

    async def slowly(call: Call) -> None:
        await release.wait()
        await answer(call)

    engine = await start_engine(slowly, port)
    clients = [await connect(gateway) for _ in range(5)]

    async def until_not_refused(one: RawClient) -> int:
        return (await one.ask(PLAIN)).status

    (way,) = gateway.front._ways.values()
    await wait_until(lambda: way.engines[0].health.usable(gateway.front.deadlines.now()))
    asking = [asyncio.ensure_future(until_not_refused(one)) for one in clients]
    await wait_until(lambda: engine.running == 5)
    release.set()
    assert await asyncio.gather(*asking) == [200] * 5
    assert (await client.ask(PLAIN)).status == 200


async def test_a_last_resort_is_used_only_where_nothing_else_serves(
    start_engine, start_gateway, connect
):
    lost, good = await start_engine(), await start_engine()
    both = route([lost.port, good.port])
    both = both.__class__(
        model="m",
        endpoints=(
            endpoint(lost.port, "m-0", last_resort=True),
            endpoint(good.port, "m-1"),
        ),
        wanted=2,
    )
    gateway = await start_gateway(table(both))
    client = await connect(gateway)
    for _ in range(5):
        assert (await client.ask(PLAIN)).status == 200
    assert (len(lost.calls), len(good.calls)) == (0, 5)
    await good.stop()
    assert (await client.ask(PLAIN)).status == 200
    assert len(lost.calls) == 1


async def test_a_loading_engine_that_is_the_only_one_is_quoted_with_a_time_to_retry(client, engine):
    engine.behave = loading
    reply = await client.ask(PLAIN)
    assert (reply.status, reply.json["error"]["message"]) == (503, "Loading model")
    assert reply.headers["retry-after"] == "2"
    engine.behave = answer
    assert (await client.ask(PLAIN)).status == 200


async def test_a_connection_that_the_engine_closed_while_idle_is_never_seen(client, engine):
    async def and_close(call: Call) -> None:
        await answer(call)
        asyncio.get_running_loop().call_later(0.002, call.close)

    engine.behave = and_close
    statuses = []
    for number in range(100):
        statuses.append((await client.ask(PLAIN)).status)
        await asyncio.sleep(0.0005 * (number % 6))
    assert set(statuses) == {200}
    assert engine.opened > 10


async def test_an_engine_that_does_not_begin_in_time_is_given_up(
    start_engine, start_gateway, connect
):
    engine = await start_engine(prefill)
    gateway = await start_gateway(table(route([engine.port]), first_byte_timeout=0.3))
    reply = await (await connect(gateway)).ask(STREAM)
    assert (reply.status, reply.code) == (504, "engine_timeout")
    await wait_until(lambda: not engine.running)


async def test_an_engine_that_does_not_accept_is_given_up(start_engine, start_gateway, connect):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        good = await start_engine()
        gateway = await start_gateway(
            table(route([full.getsockname()[1], good.port]), connect_timeout=0.3)
        )
        client = await connect(gateway)
        for _ in range(4):
            assert content(await client.ask(PLAIN)) == CONTENT
        assert [words for _, words in gateway.down] in ([], ["no connection within 0.3 s"])
        for one in fillers:
            one.close()


# After the first byte: never silently.


async def broken_stream(call: Call) -> None:
    call.begin_stream()
    call.event(chat_chunk({"content": "one"}))
    call.chunk(b'data: {"half":')
    await asyncio.sleep(0.02)
    call.abort()


async def test_a_stream_that_breaks_ends_with_an_error_event_at_the_border_of_events(
    client, engine
):
    engine.behave = broken_stream
    reply = await client.ask(STREAM)
    assert reply.status == 200
    assert reply.complete
    first, last = reply.events
    assert first["choices"][0]["delta"]["content"] == "one"
    assert last["error"]["code"] == "engine_failed"
    assert last["error"]["type"] == "server_error"
    assert await client.ended() == b""


async def test_a_stream_that_stalls_ends_with_an_error_event(start_engine, start_gateway, connect):
    async def stall(call: Call) -> None:
        call.begin_stream()
        for word in WORDS:
            call.event(chat_chunk({"content": word}))
            await asyncio.sleep(0.2)  # each piece gives it the whole time again
        await prefill(call)

    engine = await start_engine(stall)
    gateway = await start_gateway(table(route([engine.port]), idle_timeout=0.4))
    reply = await (await connect(gateway)).ask(STREAM)
    assert len(reply.events) == len(WORDS) + 1
    assert reply.events[-1]["error"]["code"] == "engine_timeout"
    await wait_until(lambda: not engine.running)


@pytest.mark.parametrize(
    "raw",
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", b"nonsense"),
    ],
    ids=["short", "no last chunk", "garbled chunks"],
)
async def test_a_plain_reply_that_breaks_is_not_taken_for_a_whole_one(raw, client, engine):
    async def behave(call: Call) -> None:
        call.write(raw[0])
        await asyncio.sleep(0.02)
        call.write(raw[1])
        call.close()

    engine.behave = behave
    reply = await client.ask(PLAIN)
    assert not reply.complete


# Framing.


async def test_a_reply_that_ends_with_its_connection_is_whole(client, engine):
    async def behave(call: Call) -> None:
        call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end")
        await asyncio.sleep(0.02)
        call.close()

    engine.behave = behave
    reply = await client.ask(PLAIN)
    assert (reply.body, reply.complete) == (b"until the end", True)
    engine.behave = answer
    assert (await client.ask(PLAIN)).status == 200


async def test_a_reply_may_come_byte_by_byte_behind_an_interim_one(client, engine):
    async def behave(call: Call) -> None:
        raw = (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n"
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n"
        )
        for at in range(len(raw)):
            call.write(raw[at : at + 1])
            await asyncio.sleep(0)

    engine.behave = behave
    reply = await client.ask(PLAIN)
    assert (reply.status, reply.body) == (200, b"ok")
    assert "x-a" not in reply.headers


@pytest.mark.parametrize(
    "extra",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL", b"EVIL"],
    ids=["a second reply", "bytes"],
)
async def test_what_follows_the_end_of_a_reply_is_never_passed_on(extra, client, engine):
    async def behave(call: Call) -> None:
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" + extra)

    engine.behave = behave
    assert (await client.ask(PLAIN)).body == b"ok"
    engine.behave = answer
    assert content(await client.ask(PLAIN)) == CONTENT
    assert engine.opened == 2  # the connection that said too much was not used again


async def test_bytes_on_an_idle_connection_are_never_taken_for_a_reply(client, engine):
    for number in range(1, 4):
        assert content(await client.ask(PLAIN)) == CONTENT
        engine.calls[-1].write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL")
        await wait_until(lambda: not engine.links)
        assert engine.opened == number


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nok",
    ],
    ids=["garbage", "both framings", "two lengths", "gzip", "LF", "folded", "huge head", "upgrade"],
)
async def test_a_reply_that_is_not_acceptable_http_counts_as_none(
    raw, start_engine, start_gateway, connect
):
    async def behave(call: Call) -> None:
        call.write(raw)

    bad, good = await start_engine(behave), await start_engine()
    gateway = await start_gateway(
        table(route([bad.port, good.port]), route([bad.port], model="only"))
    )
    client = await connect(gateway)
    for _ in range(3):
        assert content(await client.ask(PLAIN)) == CONTENT
    reply = await client.ask(post(chat("only")))
    assert (reply.status, reply.code) == (503, "engine_unreachable")


async def test_an_error_of_the_engine_reaches_the_client_as_it_is(client, engine):
    body = b'{"error": {"message": "too long",  "code": 400}}'

    async def behave(call: Call) -> None:
        call.reply(body, status=400)

    engine.behave = behave
    for request in (PLAIN, STREAM):
        reply = await client.ask(request)
        assert (reply.status, reply.body) == (400, body)


async def test_bodies_pass_byte_for_byte_both_ways(client, engine):
    asked = b' {"a" : [ ] ,\n"model":"m", "b":{"a":1e2,"b":"\\u00e9"},"x":1.0 ,"model": "m"}\n'
    said = json.dumps({"any": "thing"}, indent=3).encode() + b"\n\x00\xff"

    async def behave(call: Call) -> None:
        call.reply(said)

    engine.behave = behave
    reply = await client.ask(post(asked))
    assert reply.body == said
    assert engine.calls[0].body == asked
