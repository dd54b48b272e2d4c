"""Requests in flight: what a worker tells of them, and how an operator ends them."""

import json
import os
import signal
from typing import Any

import pytest

from llmgw.gateway.frames import Counted, Inquiry, Told
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.keys import UsageTotals
from llmgw.model.live import (
    CONNECTING,
    PREFILL,
    QUEUED,
    STREAMING,
    AskRequests,
    CancelRequests,
    LiveRequest,
    RequestsSeen,
)
from tests.fakes.engine import WORDS, Call, FakeEngine, chat_chunk, prefill
from tests.fakes.gateway import GatewayHere, endpoint, key_record, table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.process import GatewayProcess
from tests.waiting import ask_until, wait_until

PLAIN = post(chat())
STREAM = post(chat(stream=True))
OTHER = "llmgw_k2_" + "t" * 43
CANCELLED = "cancelled_by_operator"
WORDS_TOLD = "an operator cancelled the request"


async def three_then_think(call: Call) -> None:
    """Stream three tokens, then nothing until the other side leaves."""
    call.begin_stream()
    call.event(chat_chunk({"role": "assistant", "content": None}))
    for word in WORDS:
        call.event(chat_chunk({"content": word}))
    await prefill(call)


def look(gateway: GatewayHere, limit: int = 100, **more: Any) -> RequestsSeen:
    gateway.worker.take(Inquiry(ask=AskRequests(ask="a", limit=limit, **more)))
    told = gateway.reports[-1]
    assert isinstance(told, Told)
    assert told.seen is not None
    return told.seen


def end(gateway: GatewayHere, *ids: str) -> tuple[str, ...]:
    gateway.worker.take(Inquiry(cancel=CancelRequests(ask="c", ids=ids, words=WORDS_TOLD)))
    told = next(one for one in reversed(gateway.reports) if isinstance(one, Told))
    assert told.ended is not None
    return told.ended.ids


def usage(gateway: GatewayHere) -> UsageTotals:
    gateway.worker.tell()
    counted = [one for one in gateway.reports if isinstance(one, Counted)]
    return [row for one in counted for row in one.totals][-1]


def only(gateway: GatewayHere, state: str) -> LiveRequest | None:
    """Return the one request in flight, once it is that far."""
    found = look(gateway).requests
    return found[0] if found and found[0].state == state else None


async def open_one(gateway: GatewayHere, connect, request: bytes = STREAM) -> RawClient:
    client: RawClient = await connect(gateway)
    await client.send(request)
    return client


@pytest.fixture
async def gateway(start_gateway, engine: FakeEngine) -> GatewayHere:
    one = endpoint(engine.port, "m-0", node="n1")
    routes = Route(model="m", endpoints=(one,), wanted=1)
    made: GatewayHere = await start_gateway(table(routes, keys=[key_record(OTHER, name="bob")]))
    return made


async def test_a_stream_is_told_with_all_that_is_known_of_it(gateway, engine, connect):
    engine.behave = three_then_think
    client = await open_one(gateway, connect)
    seen = await wait_until(lambda: only(gateway, STREAMING))
    port = client.writer.get_extra_info("sockname")[1]
    assert seen == LiveRequest(
        id=seen.id,
        key="k1",
        key_name="k1",
        model="m",
        replica="m-0",
        node="n1",
        path="/v1/chat/completions",
        streams=True,
        state=STREAMING,
        age=seen.age,
        tokens=3,
        client=f"127.0.0.1:{port}",
    )
    assert seen.id.startswith("req-test-")


async def test_each_state_is_told_as_it_is(gateway, engine, start_gateway, connect):
    engine.behave = prefill
    await open_one(gateway, connect, PLAIN)
    seen = await wait_until(lambda: only(gateway, PREFILL))
    assert (seen.streams, seen.tokens, seen.place) == (False, None, None)
    nowhere = Endpoint(replica="far-0", host="192.0.2.1", port=9)  # takes no connection, ever
    far = await start_gateway(table(Route(model="m", endpoints=(nowhere,), wanted=1)))
    await open_one(far, connect)
    seen = await wait_until(lambda: only(far, CONNECTING))
    assert (seen.replica, seen.tokens) == ("far-0", None)


async def test_those_that_wait_are_told_with_their_places(gateway, engine, connect):
    engine.behave = prefill
    one = endpoint(engine.port, "m-0", concurrency=1)
    gateway.show(table(Route(model="m", endpoints=(one,), wanted=1)))
    for _ in range(3):
        await open_one(gateway, connect)
    await wait_until(lambda: look(gateway).total == 3)
    waiting = look(gateway, state=QUEUED).requests
    assert [(one.state, one.place, one.replica) for one in waiting] == [
        (QUEUED, 1, None),
        (QUEUED, 2, None),
    ]


async def test_only_those_are_told_that_are_asked_for_and_all_are_counted(gateway, engine, connect):
    engine.behave = prefill
    await open_one(gateway, connect)
    await wait_until(lambda: any(one.age for one in look(gateway).requests), what="time passes")
    await open_one(gateway, connect, post(chat(stream=True), key=OTHER))
    await wait_until(lambda: engine.running == 2)
    await connect(gateway)  # asks nothing
    keys = {
        "bob": ["k2"], "k2": ["k2"], "k1": ["k1"], "nobody": [],
    }  # fmt: skip
    for key, found in keys.items():
        seen = look(gateway, key=key)
        assert [one.key for one in seen.requests] == found
        assert (seen.total, seen.matching) == (2, len(found))
    for more, count in (
        ({"model": "m"}, 2), ({"model": "n"}, 0), ({"replica": "m-0"}, 2), ({"replica": "x"}, 0),
        ({"node": "n1"}, 2), ({"node": "n2"}, 0), ({"state": PREFILL}, 2), ({"state": QUEUED}, 0),
        ({"model": "m", "key": "bob", "node": "n1"}, 1), ({"ids": ("req-none",)}, 0),
    ):  # fmt: skip
        assert look(gateway, **more).matching == count, more
    oldest, newest = look(gateway, 1), look(gateway, 1, newest=True)
    assert [one.key for one in oldest.requests] == ["k1"]
    assert [one.key for one in newest.requests] == ["k2"]
    assert (oldest.total, oldest.matching) == (2, 2)


async def test_a_stream_that_is_cancelled_ends_with_an_error_and_is_booked_as_far_as_it_was(
    gateway, engine, connect
):
    engine.behave = three_then_think
    client = await open_one(gateway, connect)
    seen = await wait_until(lambda: only(gateway, STREAMING))
    assert end(gateway, seen.id, "req-none") == (seen.id,)
    reply = await client.reply()
    assert reply.complete
    error = reply.events[-1]["error"]
    assert (error["code"], error["message"]) == (CANCELLED, WORDS_TOLD)
    await wait_until(lambda: not engine.links, what="the engine's connection is gone")
    row = usage(gateway)
    assert (row.requests, row.completion_tokens, row.cancelled, row.failed) == (1, 3, 1, 0)
    assert row.prompt_tokens > 0
    traffic = [one for one in gateway.reports if isinstance(one, Counted)][-1].traffic[-1]
    assert [(one.code, one.count) for one in traffic.errors] == [(CANCELLED, 1)]
    assert (traffic.in_flight, traffic.client_aborts, traffic.engine_aborts) == (0, 0, 0)
    assert end(gateway, seen.id) == ()


async def test_a_request_that_is_cancelled_before_its_reply_gets_an_error_and_may_go_on(
    gateway, engine, connect
):
    engine.behave = prefill
    client = await open_one(gateway, connect, PLAIN)
    seen = await wait_until(lambda: only(gateway, PREFILL))
    assert end(gateway, seen.id) == (seen.id,)
    reply = await client.reply()
    assert (reply.status, reply.code) == (403, CANCELLED)
    row = usage(gateway)
    assert (row.completion_tokens, row.cancelled, row.failed) == (0, 1, 0)
    await wait_until(lambda: not engine.running)
    await client.send(PLAIN)  # the same connection serves the next one
    await wait_until(lambda: only(gateway, PREFILL))


async def test_a_request_that_waits_and_is_cancelled_leaves_the_queue(gateway, engine, connect):
    engine.behave = prefill
    one = endpoint(engine.port, "m-0", concurrency=1)
    gateway.show(table(Route(model="m", endpoints=(one,), wanted=1), comment_period=0.01))
    await open_one(gateway, connect)
    await wait_until(lambda: engine.running == 1)
    plain, told = [await open_one(gateway, connect, one) for one in (PLAIN, STREAM)]
    await wait_until(lambda: look(gateway, state=QUEUED).total == 3)
    gateway.front.tidy()
    await told.reply(head_only=True)
    assert b"waiting" in await told.event()
    ids = [one.id for one in look(gateway, state=QUEUED).requests]
    assert end(gateway, *ids) == tuple(ids)
    assert (await plain.reply()).code == CANCELLED
    while CANCELLED.encode() not in (last := await told.event()):
        assert last.startswith(b": ")
    assert gateway.front.gate.counts() == {}
    assert look(gateway).total == 1


async def test_a_gathered_answer_that_is_cancelled_is_booked_as_far_as_it_was(
    gateway, engine, connect
):
    engine.behave = three_then_think
    one = endpoint(engine.port, "m-0", engine="llamacpp")
    gateway.show(table(Route(model="m", endpoints=(one,), wanted=1)))
    client = await open_one(gateway, connect, PLAIN)
    seen = await wait_until(lambda: only(gateway, STREAMING))
    assert (seen.streams, seen.tokens) == (False, 3)
    end(gateway, seen.id)
    assert (await client.reply()).code == CANCELLED
    assert (usage(gateway).completion_tokens, usage(gateway).cancelled) == (3, 1)


async def test_a_fault_in_the_walk_costs_the_answer_and_not_the_worker(
    gateway, engine, connect, monkeypatch
):
    engine.behave = prefill
    client = await open_one(gateway, connect)
    await wait_until(lambda: engine.running == 1)
    with monkeypatch.context() as patch:
        patch.setattr(type(gateway.front.gate), "places", None)
        patch.setattr("llmgw.gateway.live._record", None)
        gateway.worker.take(Inquiry(ask=AskRequests(ask="a", limit=9)))
    assert gateway.reports[-1] == Told()
    assert look(gateway).total == 1
    client.abort()


# Over the link, with real workers.


async def asked(plane, **more: Any) -> RequestsSeen:
    """Return what a gateway with two workers says."""
    ask = AskRequests(ask=f"a{len(plane.seen)}", limit=100, **more)
    before = len(plane.seen)
    plane.ask(ask)
    await wait_until(lambda: len(plane.seen) > before)
    seen: RequestsSeen = plane.seen[-1]
    return seen


async def test_a_gateway_lists_the_requests_of_its_workers_and_ends_them(
    gateway_process: GatewayProcess, plane, engine
):
    gateway = gateway_process
    engine.behave = three_then_think
    await gateway.start()
    assert "requests" in plane.registers[0].features
    clients = [await RawClient.open(gateway.port) for _ in range(6)]
    for client in clients:
        await client.send(STREAM)

    async def all_stream() -> RequestsSeen | None:
        seen = await asked(plane)
        states = [one.state for one in seen.requests]
        return seen if states == [STREAMING] * 6 else None

    seen = await ask_until(all_stream)
    assert seen is not None
    assert (seen.gateway, seen.total, seen.matching, seen.silent) == ("gw-1", 6, 6, 0)
    ages = [one.age for one in seen.requests]
    assert ages == sorted(ages, reverse=True)
    assert len((await asked(plane, ids=(seen.requests[2].id,))).requests) == 1
    ids = tuple(one.id for one in seen.requests)
    plane.cancel(CancelRequests(ask="c", ids=(*ids, "req-none"), words=WORDS_TOLD))
    (told,) = await wait_until(lambda: plane.ended)
    assert (told.gateway, set(told.ids), told.silent) == ("gw-1", set(ids), 0)
    for client in clients:
        last = (await client.reply()).body.split(b"\n\n")[-2]
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == CANCELLED
    await wait_until(lambda: not engine.links)
    booked = await wait_until(
        lambda: [one for one in plane.totals().values() if one.cancelled == 6]
    )
    assert [(one.key, one.completion_tokens) for one in booked] == [("k1", 18)]


async def test_a_worker_that_hangs_is_said_to_be_silent(gateway_process, plane, engine):
    await gateway_process.start()
    hanging = gateway_process.workers()[0]
    os.kill(hanging, signal.SIGSTOP)
    try:
        seen = await asked(plane)
        assert seen.silent == 1
    finally:
        os.kill(hanging, signal.SIGCONT)


@pytest.fixture
async def gateway_process(tmp_path, plane):
    made = GatewayProcess(tmp_path / "gateway", plane)
    yield made
    await made.end()
