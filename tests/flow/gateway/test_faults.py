"""Faults of the gateway's own: each costs the request that met it, and nothing else."""

from unittest.mock import patch

import pytest

from llmgw.gateway.admission.gate import Gate
from llmgw.gateway.front import Front
from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.exchange import Exchange
from llmgw.gateway.proxy.outgoing import Outgoing
from llmgw.gateway.proxy.sending import Sending
from llmgw.gateway.proxy.turn import ToldClient, Turn
from llmgw.model.gateway import Route
from tests.fakes.engine import FakeEngine, prefill
from tests.fakes.gateway import GatewayHere, key_record, route, table
from tests.fakes.rawclient import chat, post
from tests.flow.gateway.waiting import Slow, ask, fill, queued, state, traffic
from tests.waiting import wait_until

REQUEST = post(chat())
STREAM = post(chat(stream=True))
PLACES = (
    (Front, "_task"),
    (Front, "_wait"),
    (Gate, "lets_on"),
    (Exchange, "__init__"),
    (Sending, "prepare"),
    (Outgoing, "write_for"),
    (EngineConnection, "send"),
)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged of faults, which are new in each test."""
    lines: list[str] = []
    monkeypatch.setattr(faults, "_told", set())
    monkeypatch.setattr(faults.log, "error", lambda words, **more: lines.append(more["doing"]))
    return lines


def planted(owner: type, name: str):
    """Let a method raise what nobody foresees."""
    return patch.object(owner, name, side_effect=KeyError("planted"))


def is_at_rest(gateway: GatewayHere) -> bool:
    ways = gateway.front._ways.values()
    return not any(engine.in_flight() for way in ways for engine in way.engines)


@pytest.mark.parametrize(
    ("owner", "name"), PLACES, ids=lambda place: getattr(place, "__name__", place)
)
async def test_a_fault_is_answered_and_the_connection_goes_on(
    owner, name, start_gateway, connect, engine: FakeEngine, told
):
    key = key_record(concurrent=1)
    gateway = await start_gateway(table(route([engine.port]), keys=[key]))
    client = await connect(gateway)
    if name == "_wait":
        gateway.show(table(Route(model="m", holds=True), keys=[key]))
    with planted(owner, name):
        for _ in range(3):  # each is let on: none is counted as running any more
            reply = await client.ask(STREAM)
            assert (reply.status, reply.code) == (500, "internal")
    assert len(told) == 1
    gateway.show(table(route([engine.port]), keys=[key]))
    assert (await client.ask(REQUEST)).status == 200
    assert is_at_rest(gateway)
    assert traffic(gateway).in_flight == 0


async def test_one_that_waited_meets_a_fault_and_the_next_one_goes_on(
    start_gateway, connect, engine: FakeEngine
):
    engine.behave = slow = Slow()
    gateway = await start_gateway(state(engine))
    first = await fill(gateway, connect, slow)
    asked = [(await ask(gateway, connect))[1] for _ in range(2)]
    await wait_until(lambda: queued(gateway) == 2)
    begin, made = Exchange.__init__, []

    def second_time(self: Exchange, *args: object) -> None:
        made.append(self)
        if len(made) == 1:
            raise KeyError("planted")
        begin(self, *args)  # type: ignore[arg-type]

    with patch.object(Exchange, "__init__", second_time):
        slow.end(2)
        assert (await first).status == 200
        assert sorted([(await one).status for one in asked]) == [200, 500]
    assert traffic(gateway).in_flight == 0
    assert is_at_rest(gateway)


async def test_a_fault_while_places_are_told_ends_one_and_the_others_wait_on(
    start_gateway, connect, engine: FakeEngine
):
    engine.behave = slow = Slow()
    gateway = await start_gateway(state(engine, comment_period=0.01))
    first = await fill(gateway, connect, slow)
    _, stream = await ask(gateway, connect, STREAM)
    _, plain = await ask(gateway, connect)
    await wait_until(lambda: len(gateway.front.gate._queues["m"].queue) == 2)
    with planted(ToldClient, "comment"):
        await wait_until(lambda: queued(gateway) == 1)
    assert (await stream).events[-1]["error"]["code"] == "internal"
    slow.end(2)
    assert [(await one).status for one in (first, plain)] == [200, 200]
    assert traffic(gateway).in_flight == 0


@pytest.mark.parametrize("owner", [Exchange, Turn])
async def test_a_fault_at_a_deadline_ends_its_connection_and_others_are_kept(
    owner, start_gateway, connect, engine: FakeEngine
):
    engine.behave = prefill
    routes = [route([engine.port])] if owner is Exchange else [Route(model="m", holds=True)]
    gateway = await start_gateway(table(*routes, first_byte_timeout=0.05, held_for=0.05))
    clients = [await connect(gateway) for _ in range(2)]
    for one in clients:
        await one.send(REQUEST)
    with planted(owner, "expired"):
        for one in clients:
            assert await one.ended() == b""
    await wait_until(lambda: traffic(gateway).in_flight == 0)
    assert is_at_rest(gateway)
    reply = await (await connect(gateway)).ask(REQUEST)
    assert reply.code in {"engine_timeout", "no_replica"}


async def test_the_worker_ticks_on_after_a_fault(start_gateway, connect, engine: FakeEngine, told):
    engine.behave = prefill
    gateway = await start_gateway(table(route([engine.port]), first_byte_timeout=0.05))
    with planted(Front, "tidy"):
        await wait_until(lambda: told)
    assert told == ["tidy up"]
    assert (await (await connect(gateway)).ask(REQUEST)).code == "engine_timeout"
