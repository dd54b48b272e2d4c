"""What the clients of requests that wait for room hear meanwhile."""

import asyncio
import json

import pytest

from llmgw.gateway.proxy.turn import Turn
from llmgw.model.gateway import Route
from tests.fakes.engine import Call, FakeEngine
from tests.fakes.gateway import table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.waiting import REQUEST, STREAM, Slow, ask, ends_with, fill, queued, state
from tests.waiting import wait_until


@pytest.fixture
def slow(engine: FakeEngine) -> Slow:
    engine.behave = made = Slow()
    return made


async def test_a_stream_that_waits_is_told_its_place_and_then_is_an_ordinary_stream(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    head = await client.ask(STREAM, head_only=True)
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    assert await client.event() == b": waiting: 1 of 1\n\n"
    slow.end(3)
    await first
    events: list[bytes] = []
    while not events or b"[DONE]" not in events[-1]:
        event = await client.event()
        if not event.startswith(b":"):
            events.append(event)
    text = b"".join(events)
    assert text.count(b"HTTP/1.1") == 0
    assert json.loads(text.split(b"\n\n")[1].removeprefix(b"data: "))["choices"]
    assert (await client.reader.readexactly(5)) == b"0\r\n\r\n"
    assert (await client.ask(REQUEST, head_only=True)).status == 200  # the connection goes on


async def test_a_stream_behind_others_hears_how_it_comes_nearer(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    _ = await fill(gateway, connect, slow)
    others = [(await ask(gateway, connect))[1] for _ in range(2)]
    await wait_until(lambda: queued(gateway) == 2)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)
    assert await client.event() == b": waiting: 3 of 3\n\n"
    slow.end(2)
    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    heard = b""
    while b"1 of 1" not in heard:
        heard = await client.event()
    slow.end(9)
    await asyncio.gather(*others)


async def test_a_deadline_after_comments_is_an_error_event(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05, queue_for=0.6))
    _ = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "queue_timeout"  # type: ignore[index]
    slow.end(9)
    assert (await client.ask(REQUEST)).status == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_engines_error_after_comments_is_an_error_event_in_its_words(
    chunked, start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)

    async def refuses(call: Call) -> None:
        error = {"error": {"message": "too long", "code": "context_length_exceeded"}}
        if not chunked:
            call.reply(error, status=400)
            return
        call.write(b"HTTP/1.1 400 X\r\ncontent-type: application/json\r\n")
        call.write(b"transfer-encoding: chunked\r\n\r\n")
        text = json.dumps(error).encode()
        call.chunk(text[:9])
        call.chunk(text[9:])
        call.end_stream()

    engine.behave = refuses
    slow.end()
    await first
    (error,) = await ends_with(client)
    assert error == {"error": {"message": "too long", "code": "context_length_exceeded"}}


@pytest.mark.parametrize("error", [{"error": "x" * 100_000}, b'{"error":' * 30_000])
async def test_an_error_too_large_or_too_deep_to_be_told_is_told_of_after_comments(
    error, start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)
    text = error if isinstance(error, bytes) else json.dumps(error).encode()

    async def refuses(call: Call) -> None:
        call.write(b"HTTP/1.1 400 X\r\ncontent-type: application/json\r\n")
        call.write(b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(text), 30_000):
            call.chunk(text[at : at + 30_000])
            await asyncio.sleep(0)
        call.end_stream()

    engine.behave = refuses
    slow.end()
    await first
    (told,) = await ends_with(client)
    assert told["error"]["code"] == "engine_failed"  # type: ignore[index]


async def test_what_does_not_stream_hears_nothing_while_it_waits(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.01))
    first = await fill(gateway, connect, slow)
    _, asked = await ask(gateway, connect, post(chat(stream=True), path=b"/v1/embeddings"))
    _, stream = await ask(gateway, connect, post(chat(stream=True), path=b"/v1/responses"))
    await wait_until(lambda: queued(gateway) == 2)
    waiting = [place.request for place in gateway.front.gate._queues["m"].queue.all()]
    assert all(isinstance(one, Turn) for one in waiting)
    await wait_until(lambda: queued(gateway) and any(one._told for one in waiting))
    slow.end(9)
    await first
    assert b"waiting" in (await stream).body
    assert b"waiting" not in (await asked).body


async def test_an_engine_that_dies_after_comments_is_an_error_event(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)

    async def dies(call: Call) -> None:
        call.abort()

    engine.behave = dies
    slow.end()
    await first
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "engine_unreachable"  # type: ignore[index]


async def test_an_answer_that_is_no_stream_is_told_of_after_comments(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)

    async def whole(call: Call) -> None:
        call.reply({"choices": []})

    engine.behave = whole
    slow.end()
    await first
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "engine_failed"  # type: ignore[index]


async def test_a_client_of_http_1_0_gets_its_stream_to_the_end_of_the_connection(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.send(post(chat(stream=True), version=b"1.0"))
    assert b": waiting" in await client.reader.readuntil(b"1 of 1\n\n")
    slow.end(2)
    await first
    assert b"[DONE]" in await client.ended()


async def test_a_stream_hears_while_its_model_is_started(start_gateway, connect, engine):
    rests = Route(model="m", holds=True, reason="nothing was asked of it for 10m00s")
    gateway = await start_gateway(table(rests, comment_period=0.05))
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)
    assert await client.event() == b": waiting: 1 of 1\n\n"
    gateway.show(table(Route(model="m", wanted=1, reason="can't be placed: no room")))
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "no_replica"  # type: ignore[index]
    assert "can't be placed" in error["error"]["message"]  # type: ignore[index]
