"""Limits of keys as clients meet them: who is refused, in which words, until when."""

import json

import pytest

from llmgw.gateway.key_cells import RUNNING, TOKENS, KeyCells
from llmgw.gateway.mapped import create
from llmgw.gateway.quotas import Quotas
from llmgw.model.keys import Key
from tests.fakes.engine import PROMPT_TOKENS, WORDS, Call, FakeEngine, chat_chunk, prefill
from tests.fakes.gateway import key_record, route, table
from tests.fakes.quotas import Hand
from tests.fakes.rawclient import chat, get, post
from tests.waiting import wait_until

REQUEST = post(chat())
STREAM = post(chat(stream=True))


def limited(**limits: int) -> Key:
    return key_record(**limits)  # type: ignore[arg-type]


async def test_a_key_over_its_requests_is_refused_with_what_openai_clients_read(
    start_gateway, connect, engine: FakeEngine
):
    gateway = await start_gateway(
        table(route([engine.port]), keys=[limited(requests_per_minute=2)])
    )
    client = await connect(gateway)
    first = await client.ask(REQUEST)
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    assert (await client.ask(REQUEST)).headers["x-ratelimit-remaining-requests"] == "0"
    reply = await client.ask(REQUEST)
    assert (reply.status, reply.code) == (429, "over_requests_per_minute")
    assert reply.json["error"]["type"] == "requests"
    assert 60 <= int(reply.headers["retry-after"]) <= 62
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert len(engine.calls) == 2
    assert (await client.ask(get(b"/v1/models"))).status == 200  # a listing costs nothing


async def test_a_refused_request_is_answered_before_its_body_is_sent(
    start_gateway, connect, engine: FakeEngine
):
    gateway = await start_gateway(
        table(route([engine.port]), keys=[limited(requests_per_minute=1)])
    )
    await (await connect(gateway)).ask(REQUEST)
    client = await connect(gateway)
    reply = await client.ask(post(b"", b"Expect: 100-continue", b"Content-Length: 60000000"))
    assert reply.status == 429


async def test_tokens_are_charged_as_they_pass_and_settled_at_the_end(
    start_gateway, connect, engine: FakeEngine
):
    async def endless(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"role": "assistant"}))
        for _ in range(200):
            call.event(chat_chunk({"content": "x"}))
        await prefill(call)

    behave, engine.behave = engine.behave, endless
    gateway = await start_gateway(
        table(route([engine.port]), keys=[limited(tokens_per_minute=150)])
    )
    running = await connect(gateway)
    await running.ask(STREAM, head_only=True)
    client = await connect(gateway)

    column = gateway.quotas.columns(tuple(gateway.keys.values()))["k1"]
    await wait_until(lambda: gateway.key_cells.total(TOKENS, column) > 150)
    assert (await client.ask(REQUEST)).code == "over_tokens_per_minute"
    engine.behave = behave
    running.abort()


async def test_what_engines_say_is_what_counts(start_gateway, connect, engine: FakeEngine):
    each = PROMPT_TOKENS + len(WORDS)
    gateway = await start_gateway(
        table(route([engine.port]), keys=[limited(tokens_per_minute=3 * each)])
    )
    client = await connect(gateway)
    replies = [await client.ask(request) for request in (REQUEST, STREAM, REQUEST)]
    reserved = [-(-len(json.dumps(body)) // 4) for body in (chat(), chat(stream=True), chat())]
    assert [int(reply.headers["x-ratelimit-remaining-tokens"]) for reply in replies] == [
        max(0, left * each - now) for left, now in zip((3, 2, 1), reserved, strict=True)
    ]
    assert (await client.ask(STREAM)).code == "over_tokens_per_minute"


async def test_as_many_run_as_may_and_one_that_leaves_makes_room(
    start_gateway, connect, engine: FakeEngine
):
    engine.behave = prefill
    state = table(route([engine.port]), keys=[limited(concurrent=2)])
    gateway = await start_gateway(state)
    clients = [await connect(gateway) for _ in range(3)]
    for client in clients[:2]:
        await client.send(REQUEST)
    await wait_until(lambda: len(engine.calls) == 2)
    reply = await clients[2].ask(REQUEST)
    assert (reply.code, reply.headers["retry-after"]) == ("over_concurrent", "1")
    clients[0].abort()
    await wait_until(lambda: engine.running == 1)
    await clients[2].send(REQUEST)
    await wait_until(lambda: len(engine.calls) == 3)


@pytest.mark.parametrize("ends", ["leaves", "breaks", "nobody", "bad"])
async def test_whatever_ends_a_request_it_runs_no_longer(
    ends, start_gateway, connect, start_engine
):
    async def breaks(call: Call) -> None:
        call.abort()

    behave = {"leaves": prefill, "breaks": breaks}.get(ends)
    engine = await start_engine(behave)
    port = engine.port if ends != "nobody" else 1
    gateway = await start_gateway(
        table(route([port]), keys=[limited(concurrent=1, tokens_per_minute=10**6)])
    )
    client = await connect(gateway)
    if ends == "leaves":
        await client.send(REQUEST)
        await wait_until(lambda: engine.calls)
        client.abort()
    elif ends == "bad":
        await client.ask(post(chat(stream=True, stream_options={"x": [1] * 3}, model="m")))
    else:
        assert (await client.ask(REQUEST)).status >= 500
    column = gateway.quotas.columns(tuple(gateway.keys.values()))["k1"]
    await wait_until(lambda: gateway.key_cells.total(RUNNING, column) == 0)
    if ends != "bad":
        assert gateway.key_cells.total(TOKENS, column) == 0


async def test_two_workers_share_what_a_key_has(start_gateway, connect, engine: FakeEngine):
    clock = Hand()
    fd = create(2)
    quotas = Quotas(KeyCells.attach(fd, 0), "gw", clock)
    state = table(route([engine.port]), keys=[limited(requests_per_minute=4)])
    workers = [
        await start_gateway(state, clock=clock, keys=KeyCells.attach(fd, row), quotas=quotas)
        for row in range(2)
    ]
    clients = [await connect(worker) for worker in workers]
    seen = [(await clients[number % 2].ask(REQUEST)).status for number in range(6)]
    assert seen == [200, 200, 200, 200, 429, 429]
    quotas.look()
    clock.pass_(62.0)
    quotas.look()
    assert (await clients[1].ask(REQUEST)).status == 200


async def test_limits_are_kept_while_the_control_plane_is_away(
    start_gateway, connect, engine: FakeEngine
):
    state = table(route([engine.port]), keys=[limited(requests_per_minute=1)])
    gateway = await start_gateway(state)
    gateway.show(state, current=False)
    client = await connect(gateway)
    assert [(await client.ask(REQUEST)).status for _ in range(2)] == [200, 429]


async def test_a_change_of_a_keys_limits_acts_on_the_next_request(
    start_gateway, connect, engine: FakeEngine
):
    gateway = await start_gateway(
        table(route([engine.port]), keys=[limited(requests_per_minute=1)])
    )
    client = await connect(gateway)
    assert [(await client.ask(REQUEST)).status for _ in range(2)] == [200, 429]
    gateway.show(table(route([engine.port]), keys=[limited(requests_per_minute=2)]))
    assert [(await client.ask(REQUEST)).status for _ in range(2)] == [200, 429]
    gateway.show(table(route([engine.port])))
    reply = await client.ask(REQUEST)
    assert reply.status == 200
    assert "x-ratelimit-limit-requests" not in reply.headers
