"""Clients that leave, and clients that do not read: nothing runs on for nobody."""

import asyncio
import socket
import time
from functools import partial

import pytest

from tests.fakes.engine import WORDS, Call, FakeEngine, answer, chat_chunk, prefill
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.conftest import Connect, StartGateway
from tests.waiting import wait_until

PLAIN = post(chat())
STREAM = post(chat(stream=True))


@pytest.fixture
async def client(start_gateway: StartGateway, engine: FakeEngine, connect: Connect) -> RawClient:
    return await connect(await start_gateway(table(route([engine.port]))))


@pytest.mark.parametrize(("number", "within"), [(200, 1.0), (1000, 10.0)])
async def test_clients_that_leave_in_prefill_take_their_requests_with_them(
    start_engine, start_gateway, connect, number, within
):
    engine = await start_engine(prefill)
    gateway = await start_gateway(table(route([engine.port])))
    clients = [await connect(gateway) for _ in range(number)]
    for one in clients:
        await one.send(STREAM)
    await wait_until(lambda: engine.running == number)
    (way,) = gateway.front._ways.values()
    assert way.engines[0].in_flight() == number
    worked = time.process_time()
    for one in clients:
        one.close()
    await wait_until(lambda: engine.running == 0, timeout=within)
    # Clients and engine are in this process too, and others may have the core meanwhile.
    assert time.process_time() - worked < 1.0
    assert way.engines[0].in_flight() == 0
    await wait_until(lambda: not engine.links, timeout=1.0)


async def test_a_client_that_leaves_a_stream_takes_it_with_it_though_nothing_is_sent(
    client, engine
):
    async def three_then_think(call: Call) -> None:
        call.begin_stream()
        for word in WORDS:
            call.event(chat_chunk({"content": word}))
        await prefill(call)

    engine.behave = three_then_think
    await client.ask(STREAM, head_only=True)
    await client.event()
    client.close()
    await wait_until(lambda: not engine.running, timeout=1.0)


async def test_a_client_that_leaves_with_much_pipelined_behind_its_request_takes_it_with_it(
    client, engine
):
    engine.behave = prefill
    await client.send(PLAIN)
    await wait_until(lambda: engine.running)
    await client.send(post(b"x" * 200_000, length=300_000))
    client.close()
    await wait_until(lambda: not engine.running, timeout=1.0)


async def test_what_is_pipelined_beyond_its_limit_is_not_taken_and_the_connection_ends_in_order(
    client, engine
):
    release = asyncio.Event()

    async def behave(call: Call) -> None:
        await release.wait()
        await answer(call)

    engine.behave = behave
    await client.send(PLAIN)
    await wait_until(lambda: engine.running)
    await client.send(PLAIN + post(b"x" * 200_000) + PLAIN)
    release.set()
    assert [(await client.reply()).status for _ in range(2)] == [200] * 2
    assert await client.ended() == b""
    assert len(engine.calls) == 2


async def test_a_client_that_leaves_while_the_engine_is_connected_to_leaves_nothing(
    start_gateway, connect
):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        gateway = await start_gateway(table(route([full.getsockname()[1]])))
        client = await connect(gateway)
        await client.send(PLAIN)
        await wait_until(lambda: gateway.front._connecting)
        client.close()
        await wait_until(lambda: not gateway.front._connecting, timeout=1.0)
        (way,) = gateway.front._ways.values()
        assert way.engines[0].in_flight() == 0
        assert gateway.down == []
        for one in fillers:
            one.close()


async def flood(call: Call) -> None:
    """Push as fast as it is taken, counting what was taken."""
    call.begin_stream()
    piece = b"data: " + b"z" * 65_000 + b"\n\n"
    while not call.gone.is_set():
        if call.link.transport.get_write_buffer_size() < 1 << 20:
            call.chunk(piece)
            call.link.pushed = getattr(call.link, "pushed", 0) + len(piece)  # type: ignore[attr-defined]
        await asyncio.sleep(0.001)


async def test_a_client_that_does_not_read_stops_the_engine_and_is_given_up_in_the_end(
    start_engine, start_gateway, connect
):
    engine = await start_engine(flood)
    gateway = await start_gateway(table(route([engine.port]), idle_timeout=1.0))
    client = await connect(gateway)
    client.writer.transport.pause_reading()
    await client.send(STREAM)
    await wait_until(lambda: engine.running)
    largest = 0

    def over() -> bool:
        nonlocal largest
        sizes = [one._transport.get_write_buffer_size() for one in gateway.front.connections]
        largest = max(largest, *sizes, 0)
        return not sizes

    await wait_until(over)
    await wait_until(lambda: not engine.running, timeout=1.0)
    assert 0 < largest < 1 << 20


async def test_a_slow_reader_gets_everything(start_engine, start_gateway, connect):
    size = 8 << 20

    async def large(call: Call) -> None:
        call.reply(b"y" * size)

    engine = await start_engine(large)
    client = await connect(await start_gateway(table(route([engine.port]))))
    client.writer.transport.pause_reading()
    await client.send(PLAIN)
    await wait_until(lambda: engine.calls)
    link = engine.calls[0].link
    await wait_until(lambda: link.transport.get_write_buffer_size() > 0)  # it has to wait
    client.writer.transport.resume_reading()
    reply = await client.reply()
    assert reply.complete
    assert len(reply.body) == size


def sums_to(engines: list[FakeEngine], number: int) -> bool:
    return sum(one.running for one in engines) == number


async def test_requests_go_where_the_least_is_in_flight(start_engine, start_gateway, connect):
    engines = [await start_engine(prefill) for _ in range(3)]
    gateway: GatewayHere = await start_gateway(table(route([one.port for one in engines])))
    for number in range(1, 10):
        await (await connect(gateway)).send(PLAIN)
        await wait_until(partial(sums_to, engines, number))
        loads = [one.running for one in engines]
        assert max(loads) - min(loads) <= 1
