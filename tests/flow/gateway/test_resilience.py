"""Engines that fail, fill up or come back: what requests cost then, and whom."""

import asyncio

from tests.fakes.engine import FakeEngine, answer, loading, prefill, reset
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import chat, post
from tests.flow.gateway.conftest import Connect, StartEngine, StartGateway
from tests.waiting import wait_until

PLAIN = post(chat())


def engine_of(gateway: GatewayHere, number: int):
    (way,) = gateway.front._ways.values()
    return way.engines[number]


async def test_when_everything_fails_requests_are_not_sent_three_times_for_long(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = [await start_engine(loading) for _ in range(3)]
    gateway = await start_gateway(table(route([one.port for one in engines])))
    client = await connect(gateway)
    for _ in range(100):
        for number in range(3):
            engine_of(gateway, number).health.worked()  # each one is tried as if it were well
        assert (await client.ask(PLAIN)).status == 503
    sent = sum(len(one.calls) for one in engines)
    assert 100 < sent <= 100 + 20 + 20 + 5  # a share of them, what is saved up, and seconds


async def test_a_replica_that_has_as_many_requests_as_it_may_gets_no_more(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = [await start_engine(prefill) for _ in range(2)]
    shown = table(route([one.port for one in engines]), replica_connections=2)
    gateway = await start_gateway(shown)
    waiting = [await connect(gateway) for _ in range(4)]
    for client in waiting:
        await client.send(PLAIN)
    await wait_until(lambda: [one.running for one in engines] == [2, 2])
    client = await connect(gateway)
    reply = await client.ask(PLAIN)
    assert (reply.status, reply.code) == (503, "replicas_full")
    assert int(reply.headers["retry-after"]) >= 1
    assert not gateway.down
    waiting[0].abort()
    await wait_until(lambda: sum(one.running for one in engines) == 3)
    await client.send(PLAIN)
    await wait_until(lambda: sum(one.running for one in engines) == 4)


async def test_requests_that_an_engine_took_down_with_it_let_no_second_probe_through(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    engine.behave = prefill
    gateway = await start_gateway(table(route([engine.port])))
    first, second = await connect(gateway), await connect(gateway)
    await first.send(PLAIN)
    await second.send(PLAIN)
    await wait_until(lambda: engine.running == 2)
    known = engine_of(gateway, 0)
    known.health.failed(gateway.front.deadlines.now(), 0.0, "somebody else could not connect")
    await wait_until(lambda: known.health.usable(gateway.front.deadlines.now()))
    probe = await connect(gateway)
    await probe.send(PLAIN)
    await wait_until(lambda: engine.running == 3)
    first.abort()
    await wait_until(lambda: engine.running == 2)
    known.health.probed_until = float("inf")  # the probe's time does not pass meanwhile
    second.abort()
    await wait_until(lambda: engine.running == 1)
    assert not known.health.usable(gateway.front.deadlines.now())


async def test_a_replica_that_is_back_does_not_get_all_that_comes(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    back, busy = await start_engine(reset), await start_engine()
    gateway = await start_gateway(table(route([back.port, busy.port])))
    client = await connect(gateway)
    await wait_until_it_failed(gateway, client)
    back.behave, busy.behave = answer, prefill
    known = engine_of(gateway, 0)
    await wait_until(lambda: known.health.usable(gateway.front.deadlines.now()))
    others = [await connect(gateway) for _ in range(4)]
    for one in others:
        await one.send(PLAIN)
    await wait_until(lambda: busy.running + len(back.calls) >= 4)
    known.worked(gateway.front.deadlines.now())
    back.behave = prefill
    more = [await connect(gateway) for _ in range(8)]
    await asyncio.gather(*(one.send(PLAIN) for one in more))
    await wait_until(lambda: back.running + busy.running >= 11)
    assert busy.running > back.running


async def wait_until_it_failed(gateway: GatewayHere, client) -> None:
    while not engine_of(gateway, 0).health.failures:
        assert (await client.ask(PLAIN)).status == 200


async def test_a_replica_that_comes_to_the_table_does_not_get_all_that_comes(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    first, second = await start_engine(prefill), await start_engine(prefill)
    gateway = await start_gateway(table(route([first.port])))
    clients = [await connect(gateway) for _ in range(16)]
    for one in clients[:8]:
        await one.send(PLAIN)
    await wait_until(lambda: first.running == 8)
    gateway.show(table(route([first.port, second.port])))
    for one in clients[8:]:
        await one.send(PLAIN)
    await wait_until(lambda: first.running + second.running == 16)
    assert 1 <= second.running <= 2
