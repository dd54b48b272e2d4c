"""To which replica requests go: by what they begin with, by session, by load; counted by reason."""

import asyncio
from collections import Counter

from llmgw.model.gateway import ENGINE_LOADS, EngineLoad, EngineLoads
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import Call, FakeEngine, prefill, reset
from tests.fakes.gateway import KEY, GatewayHere, key_record, route, table
from tests.fakes.rawclient import RawClient, post
from tests.flow.gateway.conftest import Connect, StartEngine, StartGateway
from tests.flow.gateway.process import GatewayProcess
from tests.waiting import wait_until

MANUAL = "All of the manual. " * 200
OTHER_KEY = "llmgw_k2_" + "t" * 43


def asked(question: str, before: str = MANUAL, *lines: bytes, key: str = KEY) -> bytes:
    messages = [{"role": "system", "content": before}, {"role": "user", "content": question}]
    return post({"model": "m", "messages": messages}, *lines, key=key)


def reasons(gateway: GatewayHere) -> Counter[str]:
    counted = gateway.front.books.take_changes()
    assert counted is not None
    traffic = {one.model: one for one in counted.traffic}
    return Counter({one.reason: one.count for one in traffic["m"].choices})


async def four(start_engine: StartEngine) -> list[FakeEngine]:
    return [await start_engine() for _ in range(4)]


async def test_requests_that_begin_alike_go_to_one_replica(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = await four(start_engine)
    gateway = await start_gateway(table(route([one.port for one in engines])))
    client = await connect(gateway)
    for number in range(12):
        assert (await client.ask(asked(f"question {number}"))).status == 200
    assert sorted(len(one.calls) for one in engines) == [0, 0, 0, 12]
    assert reasons(gateway) == {"unknown": 1, "prefix": 11}
    for number in range(40):
        assert (await client.ask(asked("?", f"Something else {number}. " * 50))).status == 200
    assert all(one.calls for one in engines)
    assert reasons(gateway)["unknown"] == 41


async def test_a_burst_that_begins_alike_spreads(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = [await start_engine(prefill) for _ in range(4)]
    gateway = await start_gateway(table(route([one.port for one in engines])))
    clients = [await connect(gateway) for _ in range(64)]
    await asyncio.gather(*(one.send(asked(f"{n}")) for n, one in enumerate(clients)))
    await wait_until(lambda: sum(one.running for one in engines) == 64)
    assert max(one.running for one in engines) <= 1.5 * 64 / 4


async def test_a_session_stays_with_its_replica_as_long_as_that_is_there(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = await four(start_engine)
    both = route([one.port for one in engines])
    gateway = await start_gateway(table(both, keys=[key_record(OTHER_KEY)]))
    client = await connect(gateway)

    def in_session(name: bytes, number: int, key: str = KEY) -> bytes:
        return asked("?", f"{number}", b"X-LLMGW-Session: " + name, key=key)

    for number in range(8):
        assert (await client.ask(in_session(b"s1", number))).status == 200
    (home,) = [one for one in engines if one.calls]
    assert len(home.calls) == 8
    assert reasons(gateway) == {"unknown": 1, "session": 7}
    assert "x-llmgw-session" not in home.calls[0].headers
    await client.ask(in_session(b"s1", 9, OTHER_KEY))
    assert reasons(gateway)["unknown"] == 2  # the name is its key's own
    await home.stop()
    for number in range(8):
        assert (await client.ask(in_session(b"s1", number))).status == 200
    away = [one for one in engines if one is not home and len(one.calls) >= 8]
    assert len(away) == 1


async def test_a_sessions_name_has_an_end(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    client = await connect(await start_gateway(table(route([engine.port]))))
    reply = await client.ask(asked("?", "", b"x-llmgw-session: " + b"s" * 129))
    assert (reply.status, reply.code) == (400, "invalid_value")
    assert reply.json["error"]["param"] == "x-llmgw-session"
    assert not engine.calls


async def test_of_one_replica_there_is_no_choice(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    gateway = await start_gateway(table(route([engine.port])))
    await (await connect(gateway)).ask(asked("?"))
    assert reasons(gateway) == {"only": 1}


async def test_an_open_stream_does_not_hold_on_to_its_requests_body(
    start_gateway: StartGateway, start_engine: StartEngine, connect: Connect
):
    async def stay(call: Call) -> None:
        call.begin_stream()
        call.event({"choices": []})
        await call.gone.wait()

    engine = await start_engine(stay)
    gateway = await start_gateway(table(route([engine.port])))
    client = await connect(gateway)
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": MANUAL}]}
    await client.send(post(body))
    assert (await client.reply(head_only=True)).status == 200
    await client.event()
    (connection,) = gateway.front.connections
    task = connection._running._task
    assert task.request.body == b""
    assert not any(bytes(raw) for raw in (task.asked.messages, task.asked.prompt))


async def test_two_workers_know_together_who_holds_what(
    gateway: GatewayProcess, plane: FakeControlPlane, engine: FakeEngine, start_engine: StartEngine
):
    engines = [engine, *[await start_engine() for _ in range(3)]]
    plane.table = table(route([one.port for one in engines]))
    await gateway.start()
    for number in range(24):
        client = await RawClient.open(gateway.port)
        assert (await client.ask(asked(f"question {number}"))).status == 200
        client.close()
    assert sorted(len(one.calls) for one in engines) == [0, 0, 0, 24]
    await wait_until(lambda: {report.worker for report in plane.traffic} == {0, 1})


async def test_a_replica_that_breaks_is_left_although_it_holds_the_prompt(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engines = await four(start_engine)
    gateway = await start_gateway(table(route([one.port for one in engines])))
    client = await connect(gateway)
    await client.ask(asked("first"))
    (home,) = [one for one in engines if one.calls]
    home.behave = reset
    for number in range(3):
        assert (await client.ask(asked(f"{number}"))).status == 200
    assert sorted(len(one.calls) for one in engines if one is not home) == [0, 0, 3]


async def test_what_engines_say_that_they_have_to_do_decides_too(
    gateway: GatewayProcess, plane: FakeControlPlane, engine: FakeEngine, start_engine: StartEngine
):
    other = await start_engine()
    plane.table = table(route([engine.port, other.port]))
    await gateway.start()
    await wait_until(lambda: plane.registers)
    assert ENGINE_LOADS in (plane.registers[0].features or ())
    busy = EngineLoad(replica="m-0", running=9, waiting=3, age=0.5)
    idle = EngineLoad(replica="m-1", running=0, waiting=0, age=0.5)
    plane.tell_loads(EngineLoads(stale_after=60.0, loads=(busy, idle)))

    async def spared() -> bool:
        before = len(engine.calls)
        for number in range(24):
            reply = await RawClient.open(gateway.port)
            assert (await reply.ask(asked("?", f"{number}"))).status == 200
            reply.close()
        return len(engine.calls) == before

    assert any([await spared() for _ in range(8)])
