"""Requests that wait for room: in what order and how long."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from llmgw.gateway.cells import Cells
from llmgw.gateway.mapped import create
from llmgw.model.gateway import Route
from tests.fakes.engine import Call, FakeEngine, answer, prefill
from tests.fakes.gateway import key_record, table
from tests.fakes.rawclient import RawClient, Reply, chat, post
from tests.flow.gateway.waiting import (
    OTHER,
    REQUEST,
    STREAM,
    Slow,
    ask,
    ends_with,
    fill,
    queued,
    state,
    traffic,
)
from tests.waiting import wait_until


def ended(asked: Sequence["asyncio.Task[Reply]"], count: int) -> bool:
    return sum(one.done() for one in asked) == count


@pytest.fixture
def slow(engine: FakeEngine) -> Slow:
    engine.behave = made = Slow()
    return made


async def test_no_more_are_sent_at_once_than_a_replica_serves(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, 2))
    asked = [(await ask(gateway, connect))[1] for _ in range(5)]
    await wait_until(lambda: queued(gateway) == 3)
    assert len(slow.calls) == 2
    for number in range(1, 6):
        slow.end()
        await wait_until(partial(ended, asked, number))
        assert engine.running <= 2
    assert [(await one).status for one in asked] == [200] * 5
    waited = traffic(gateway).waited
    assert waited is not None
    assert waited.counts[-1] == 3


async def test_a_setting_limits_replicas_that_say_nothing(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, None, replica_requests=1))
    asked = [(await ask(gateway, connect))[1] for _ in range(2)]
    await wait_until(lambda: queued(gateway) == 1)
    slow.end(2)
    assert [(await one).status for one in asked] == [200, 200]


async def test_those_that_wait_stay_when_the_engine_breaks_off_until_it_answers_again(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine))
    first = await fill(gateway, connect, slow)
    asked = [(await ask(gateway, connect))[1] for _ in range(4)]
    await wait_until(lambda: queued(gateway) == 4)
    engine.behave = answer
    slow.calls[0].abort()
    assert (await first).status == 503
    assert [(await one).status for one in asked] == [200] * 4


async def test_those_that_wait_for_a_broken_engine_wait_no_longer_than_they_may(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, queue_for=0.3))
    first = await fill(gateway, connect, slow)
    _, second = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    (way,) = gateway.front._ways.values()
    health = way.engines[0].health
    slow.calls[0].abort()
    assert (await first).status == 503
    health.out_until = float("inf")
    assert (await second).code == "queue_timeout"


async def test_a_key_with_one_request_does_not_wait_for_all_of_another(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine))
    _ = await fill(gateway, connect, slow)
    many = [(await ask(gateway, connect))[1] for _ in range(5)]
    await wait_until(lambda: queued(gateway) == 5)
    _, one = await ask(gateway, connect, post(chat(), key=OTHER))
    await wait_until(lambda: queued(gateway) == 6)
    slow.end(3)
    assert (await one).status == 200
    assert sum(task.done() for task in many) <= 2
    slow.end(9)
    await asyncio.gather(*many)


@pytest.mark.parametrize(
    ("keys", "status", "code"),
    [
        ([], 401, "invalid_api_key"),
        ([key_record(OTHER, expires=1.0)], 401, "expired_api_key"),
        ([key_record(OTHER, models=("another",))], 403, "model_not_allowed"),
    ],
)
async def test_a_key_that_ends_while_its_request_waits_gets_nothing(
    start_gateway, connect, engine: FakeEngine, slow: Slow, keys, status, code
):
    gateway = await start_gateway(state(engine))
    first = await fill(gateway, connect, slow)
    _, other = await ask(gateway, connect, post(chat(), key=OTHER))
    await wait_until(lambda: queued(gateway) == 1)
    gateway.show(state(engine, keys=keys))
    slow.end(2)
    assert (await first).status == 200
    reply = await other
    assert (reply.status, reply.code) == (status, code)
    assert len(slow.calls) == 1


async def test_a_key_that_ends_after_comments_is_an_error_event(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.1))
    first = await fill(gateway, connect, slow)
    client: RawClient = await connect(gateway)
    await client.ask(post(chat(stream=True), key=OTHER), head_only=True)
    gateway.show(state(engine, keys=[], comment_period=0.1))
    slow.end(2)
    assert (await first).status == 200
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "invalid_api_key"  # type: ignore[index]


async def test_a_key_of_higher_priority_goes_first(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, keys=[key_record(OTHER, priority=1)]))
    _ = await fill(gateway, connect, slow)
    _, low = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    high = [(await ask(gateway, connect, post(chat(), key=OTHER)))[1] for _ in range(2)]
    await wait_until(lambda: queued(gateway) == 3)
    slow.end(3)
    await asyncio.gather(*high)
    assert not low.done()
    slow.end()
    assert (await low).status == 200


async def test_a_full_queue_answers_at_once(start_gateway, connect, engine: FakeEngine, slow: Slow):
    gateway = await start_gateway(state(engine, queue_most=1))
    first = await fill(gateway, connect, slow)
    _, second = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    reply = await (await connect(gateway)).ask(REQUEST)
    assert (reply.status, reply.code) == (503, "queue_full")
    assert int(reply.headers["retry-after"]) >= 1
    assert "1 request waits already" in reply.json["error"]["message"]
    slow.end(2)
    assert [(await one).status for one in (first, second)] == [200, 200]
    assert [(one.code, one.count) for one in traffic(gateway).refusals] == [("queue_full", 1)]


async def test_nobody_waits_longer_than_the_deadline(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, queue_for=0.2))
    _ = await fill(gateway, connect, slow)
    reply = await (await connect(gateway)).ask(REQUEST)
    assert (reply.status, reply.code) == (503, "queue_timeout")
    assert reply.headers["retry-after"]
    assert "within 0.2 s" in reply.json["error"]["message"]
    assert queued(gateway) == 0


async def test_a_client_that_leaves_the_queue_frees_its_place_at_once(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, queue_most=1))
    _ = await fill(gateway, connect, slow)
    leaving, asked = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    leaving.abort()
    await wait_until(lambda: queued(gateway) == 0)
    await asyncio.gather(asked, return_exceptions=True)
    _, last = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    slow.end(2)
    assert (await last).status == 200
    assert len(slow.calls) == 2  # what was left was sent to nobody
    assert traffic(gateway).in_flight == 0


async def test_a_place_is_free_again_however_its_request_ends(
    start_gateway, connect, engine: FakeEngine
):
    engine.behave = prefill
    gateway = await start_gateway(state(engine))
    client, asked = await ask(gateway, connect)
    await wait_until(lambda: engine.running == 1)
    _, second = await ask(gateway, connect)
    await wait_until(lambda: queued(gateway) == 1)
    engine.behave = answer
    client.abort()
    assert (await second).status == 200
    await asyncio.gather(asked, return_exceptions=True)


async def test_requests_that_were_held_wait_for_room_once_the_model_is_there(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    rests = Route(model="m", holds=True, reason="nothing was asked of it for 10m00s")
    gateway = await start_gateway(table(rests))
    asked = [(await ask(gateway, connect))[1] for _ in range(3)]
    await wait_until(lambda: queued(gateway) == 3)
    gateway.show(state(engine))
    await wait_until(lambda: len(slow.calls) == 1)
    assert queued(gateway) == 2
    slow.end(3)
    assert [(await one).status for one in asked] == [200] * 3


async def test_a_worker_that_ends_answers_what_waits(
    start_gateway, connect, engine: FakeEngine, slow: Slow
):
    gateway = await start_gateway(state(engine, comment_period=0.05))
    _ = await fill(gateway, connect, slow)
    _, plain = await ask(gateway, connect)
    client: RawClient = await connect(gateway)
    await client.ask(STREAM, head_only=True)
    gateway.worker.drain(0.0)
    assert (await plain).code == "gateway_stopping"
    (error,) = await ends_with(client)
    assert error["error"]["code"] == "gateway_stopping"  # type: ignore[index]


async def test_a_worker_with_many_that_wait_does_not_starve_another(
    start_gateway, connect, engine: FakeEngine
):
    running: list[int] = []

    async def quick(call: Call) -> None:
        running.append(engine.running)
        await asyncio.sleep(0.002)
        await answer(call)

    engine.behave = quick
    fd = create(2)
    workers = [
        await start_gateway(state(engine, queue_for=20.0), cells=Cells.attach(fd, row))
        for row in range(2)
    ]
    busy = [(await ask(workers[0], connect))[1] for _ in range(60)]
    await wait_until(lambda: engine.calls)
    few = [(await ask(workers[1], connect))[1] for _ in range(3)]
    replies = await asyncio.gather(*few)
    assert [reply.status for reply in replies] == [200] * 3
    assert not all(one.done() for one in busy)
    assert {reply.status for reply in await asyncio.gather(*busy)} == {200}
    assert max(running) <= 2  # one too many at most, for the other worker
