"""Requests that wait for a model which the first of them starts (REC-6)."""

import asyncio

from llmgw.gateway.frames import Waiting
from llmgw.gateway.refusals import RETRY_AFTER
from llmgw.model.gateway import Route
from tests.fakes.engine import FakeEngine
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient, Reply, chat, post
from tests.waiting import wait_until

RESTS = Route(model="m", holds=True, reason="nothing was asked of it for 10m00s")
REQUEST = post(chat())


def waiting(gateway: GatewayHere) -> dict[str, int] | None:
    """What the worker told last."""
    told = [report.counts for report in gateway.reports if isinstance(report, Waiting)]
    return told[-1] if told else None


async def ask(gateway: GatewayHere, connect) -> tuple[RawClient, "asyncio.Task[Reply]"]:
    client = await connect(gateway)
    return client, asyncio.ensure_future(client.ask(REQUEST))


async def test_a_request_waits_for_its_model_is_told_at_once_and_is_answered(
    start_gateway, connect, engine: FakeEngine
):
    gateway = await start_gateway(table(RESTS))
    _, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    assert not asked.done()
    gateway.show(table(Route(model="m", holds=True, wanted=1, reason="starting: m-1 is starting")))
    assert not asked.done()
    gateway.show(table(route([engine.port])))
    reply = await asked
    assert (reply.status, waiting(gateway)) == (200, {})


async def test_more_than_may_wait_are_refused_with_the_reason(
    start_gateway, connect, engine: FakeEngine
):
    gateway = await start_gateway(table(RESTS, held_most=2))
    held = [await ask(gateway, connect) for _ in range(2)]
    await wait_until(lambda: waiting(gateway) == {"m": 2})
    reply = await (await connect(gateway)).ask(REQUEST)
    assert (reply.status, reply.code) == (503, "no_replica")
    assert reply.headers["retry-after"] == str(RETRY_AFTER)
    assert "2 requests wait for it already" in reply.json["error"]["message"]
    gateway.show(table(route([engine.port])))
    assert [(await asked).status for _, asked in held] == [200, 200]


async def test_what_cannot_be_placed_is_answered_with_the_reason(start_gateway, connect):
    gateway = await start_gateway(table(RESTS))
    _, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    why = "can't be placed: gpu-01: 0 of 1 GPUs free, needs 1"
    gateway.show(table(Route(model="m", wanted=1, reason=why)))
    reply = await asked
    assert (reply.status, reply.code) == (503, "no_replica")
    assert reply.headers["retry-after"] == str(RETRY_AFTER)
    assert why in reply.json["error"]["message"]


async def test_a_request_waits_no_longer_than_it_may(start_gateway, connect):
    gateway = await start_gateway(table(RESTS, held_for=0.3))
    _, asked = await ask(gateway, connect)
    reply = await asked
    assert (reply.status, reply.code) == (503, "no_replica")
    assert reply.headers["retry-after"] == str(RETRY_AFTER)
    assert "not started within 0.3 s" in reply.json["error"]["message"]
    assert waiting(gateway) == {}


async def test_a_client_that_leaves_is_waited_for_no_more(start_gateway, connect):
    gateway = await start_gateway(table(RESTS))
    client, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    client.abort()
    await wait_until(lambda: waiting(gateway) == {})
    await asyncio.gather(asked, return_exceptions=True)


async def test_a_stopped_system_holds_nobody(start_gateway, connect):
    gateway = await start_gateway(table(RESTS))
    _, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    gateway.show(table(Route(model="m", reason="the cluster is stopped"), stopped=True))
    assert (await asked).code == "system_stopped"


async def test_a_model_that_leaves_the_catalog_is_not_waited_for(start_gateway, connect):
    gateway = await start_gateway(table(RESTS))
    _, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    gateway.show(table())
    reply = await asked
    assert "it left the catalog" in reply.json["error"]["message"]


async def test_a_gateway_that_ends_answers_what_it_held(start_gateway, connect):
    gateway = await start_gateway(table(RESTS))
    _, asked = await ask(gateway, connect)
    await wait_until(lambda: waiting(gateway) == {"m": 1})
    gateway.worker.drain(0.0)
    assert (await asked).code == "gateway_stopping"
