"""Requests that are sent again, or had to wait: they go by the routes of that moment."""

import asyncio

import msgspec
import pytest

from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.table import Table
from llmgw.model.gateway import Route, Split
from tests.fakes.engine import Call, FakeEngine, prefill, reset
from tests.fakes.gateway import GatewayHere, endpoint, table
from tests.fakes.rawclient import Reply, chat, post
from tests.flow.gateway.conftest import Connect, StartEngine, StartGateway
from tests.waiting import wait_until

PLAIN = post(chat())


class Failing:
    """An engine that takes requests, and breaks their connections when it is told."""

    def __init__(self) -> None:
        self.fails = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        await self.fails.wait()
        await reset(call)


def serving(engine: FakeEngine, name: str, model: str = "m", **more: object) -> Route:
    one = endpoint(engine.port, name)
    return Route(model=model, endpoints=(one,), wanted=1, **more)  # type: ignore[arg-type]


async def after(
    gateway: GatewayHere, connect: Connect, failing: FakeEngine, behave: Failing, then: Table
) -> Reply:
    """Ask, change the table once the engine has the request, and let the engine fail."""
    client = await connect(gateway)
    asked = asyncio.ensure_future(client.ask(PLAIN))
    await wait_until(lambda: failing.running == 1)
    gateway.show(then)
    behave.fails.set()
    return await asked


async def test_a_retry_reaches_a_replica_that_came_and_none_that_left(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    behave = Failing()
    first, left, came = await start_engine(behave), await start_engine(), await start_engine()
    spare = msgspec.structs.replace(endpoint(left.port, "left"), last_resort=True)
    route = Route(model="m", endpoints=(endpoint(first.port, "first"), spare), wanted=2)
    gateway = await start_gateway(table(route))
    reply = await after(gateway, connect, first, behave, table(serving(came, "came")))
    assert reply.status == 200
    assert (len(first.calls), len(left.calls), len(came.calls)) == (1, 0, 1)


@pytest.mark.parametrize(
    ("routes", "words"),
    [((), "it left the catalog"), ((Route(model="m", reason="it rests"),), "it rests")],
)
async def test_a_retry_is_refused_when_its_model_has_left_or_stopped(
    start_engine: StartEngine,
    start_gateway: StartGateway,
    connect: Connect,
    routes: tuple[Route, ...],
    words: str,
):
    behave = Failing()
    first, left = await start_engine(behave), await start_engine()
    spare = msgspec.structs.replace(endpoint(left.port, "left"), last_resort=True)
    route = Route(model="m", endpoints=(endpoint(first.port, "first"), spare), wanted=2)
    gateway = await start_gateway(table(route))
    reply = await after(gateway, connect, first, behave, table(*routes))
    assert (reply.status, reply.code) == (503, "no_replica")
    assert words in reply.json["error"]["message"]
    assert not left.calls


async def test_a_retry_is_refused_when_the_system_was_stopped(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    behave = Failing()
    first, other = await start_engine(behave), await start_engine()
    spare = msgspec.structs.replace(endpoint(other.port, "other"), last_resort=True)
    route = Route(model="m", endpoints=(endpoint(first.port, "first"), spare), wanted=2)
    gateway = await start_gateway(table(route))
    reply = await after(gateway, connect, first, behave, table(route, stopped=True))
    assert (reply.status, reply.code) == (503, "system_stopped")
    assert not other.calls


async def test_a_request_falls_back_to_what_stands_in_at_that_moment(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    behave = Failing()
    first, before, now = await start_engine(behave), await start_engine(), await start_engine()
    others = serving(before, "before", "f1"), serving(now, "now", "f2")
    gateway = await start_gateway(table(serving(first, "first", fallback="f1"), *others))
    then = table(serving(first, "first", fallback="f2"), *others)
    assert (await after(gateway, connect, first, behave, then)).status == 200
    assert (len(before.calls), len(now.calls)) == (0, 1)


async def test_a_request_of_a_public_name_goes_to_another_of_its_models_when_one_left(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    behave = Failing()
    first, other = await start_engine(behave), await start_engine()
    public = Route(model="m", splits=(Split(model="v1", weight=1), Split(model="v2", weight=1)))
    gateway = await start_gateway(table(public, serving(first, "first", "v1")))
    then = table(public, serving(other, "other", "v2"))
    assert (await after(gateway, connect, first, behave, then)).status == 200
    assert len(other.calls) == 1
    assert other.calls[0].json["model"] == "v2"


async def test_a_replica_that_left_while_it_was_connected_to_gets_no_request(
    start_engine: StartEngine,
    start_gateway: StartGateway,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
):
    left, came = await start_engine(), await start_engine()
    connects, goes_on, connected = asyncio.Event(), asyncio.Event(), Engine.connect

    async def slowly(engine: Engine, timeout: float) -> EngineConnection:
        connection = await connected(engine, timeout)
        if engine.endpoint.port == left.port:
            connects.set()
            await goes_on.wait()
        return connection

    monkeypatch.setattr(Engine, "connect", slowly)
    gateway = await start_gateway(table(serving(left, "left")))
    client = await connect(gateway)
    asked = asyncio.ensure_future(client.ask(PLAIN))
    await connects.wait()
    (way,) = gateway.front._ways.values()
    gateway.show(table(serving(came, "came")))
    goes_on.set()
    assert (await asked).status == 200
    assert (len(left.calls), len(came.calls)) == (0, 1)
    assert way.engines[0].in_flight() == 0
    assert not way.engines[0].health.failures
    assert not gateway.down


async def test_a_request_that_waited_goes_by_the_settings_of_now(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    engine = await start_engine(prefill)
    held = Route(model="m", holds=True)
    gateway = await start_gateway(table(held))
    client = await connect(gateway)
    asked = asyncio.ensure_future(client.ask(PLAIN))
    await wait_until(lambda: gateway.front.gate.counts() == {"m": 1})
    gateway.show(table(serving(engine, "m-0"), first_byte_timeout=0.01))
    assert (await asked).code == "engine_timeout"


async def test_a_request_that_waited_falls_back_to_what_stands_in_at_that_moment(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    before, now = await start_engine(), await start_engine()
    others = serving(before, "before", "f1"), serving(now, "now", "f2")
    gateway = await start_gateway(table(Route(model="m", holds=True, fallback="f1"), *others))
    client = await connect(gateway)
    asked = asyncio.ensure_future(client.ask(PLAIN))
    await wait_until(lambda: gateway.front.gate.counts() == {"m": 1})
    gateway.show(table(Route(model="m", fallback="f2"), *others))
    assert (await asked).status == 200
    assert (len(before.calls), len(now.calls)) == (0, 1)
