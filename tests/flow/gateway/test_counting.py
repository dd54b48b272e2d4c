"""What is written down about a request: for whom, how much, how it went."""

import asyncio

import msgspec
import pytest

from llmgw.gateway.frames import Counted
from llmgw.gateway.table import Table
from llmgw.model.gateway import ModelTraffic, RefusalCount
from llmgw.model.keys import UsageTotals
from tests.fakes.engine import (
    PROMPT_TOKENS,
    WORDS,
    Call,
    FakeEngine,
    answer,
    chat_chunk,
    prefill,
    usage_chunk,
)
from tests.fakes.gateway import KEY, GatewayHere, route, table
from tests.fakes.rawclient import RawClient, chat, post
from tests.flow.gateway.conftest import Connect, StartGateway
from tests.waiting import wait_until

UNKNOWN = "llmgw_k9_" + "v" * 43


@pytest.fixture
def state(engine: FakeEngine) -> Table:
    return table(route([engine.port]))


@pytest.fixture
async def gateway(start_gateway: StartGateway, state: Table) -> GatewayHere:
    return await start_gateway(state)


@pytest.fixture
async def client(gateway: GatewayHere, connect: Connect) -> RawClient:
    return await connect(gateway)


def usage_of(gateway: GatewayHere) -> list[UsageTotals]:
    """Return the newest row of each key and model."""
    gateway.worker.tell()
    rows = {
        (row.key, row.model): row
        for report in gateway.reports
        if isinstance(report, Counted)
        for row in report.totals
    }
    return [rows[which] for which in sorted(rows)]


def traffic_of(gateway: GatewayHere, model: str = "m") -> ModelTraffic:
    gateway.worker.tell()
    seen = [
        row
        for report in gateway.reports
        if isinstance(report, Counted)
        for row in report.traffic
        if row.model == model
    ]
    return seen[-1]


async def test_usage_is_what_the_engine_says(gateway, client):
    await client.ask(post(chat()))
    await client.ask(post(chat(stream=True)))
    await client.ask(post(chat(stream=True, stream_options={"include_usage": True})))
    (row,) = usage_of(gateway)
    assert row == UsageTotals(
        key="k1",
        model="m",
        requests=3,
        prompt_tokens=3 * PROMPT_TOKENS,
        completion_tokens=3 * len(WORDS),
    )
    traffic = traffic_of(gateway)
    assert [(reply.code, reply.count) for reply in traffic.replies] == [(200, 3)]
    assert traffic.duration is not None
    assert traffic.duration.counts[-1] == 3
    assert traffic.first_token is not None
    assert traffic.first_token.counts[-1] == 2
    assert traffic.inter_token is not None
    assert traffic.inter_token.counts[-1] == 2
    assert (traffic.prompt_tokens, traffic.completion_tokens) == (21, 9)
    assert traffic.in_flight == 0


async def test_a_zero_that_the_engine_says_stays_zero(gateway, client, engine):
    async def nothing(call: Call) -> None:
        call.reply({"usage": {"prompt_tokens": 0, "completion_tokens": 0}})

    engine.behave = nothing
    await client.ask(post(chat()))
    (row,) = usage_of(gateway)
    assert (row.requests, row.prompt_tokens, row.completion_tokens, row.estimated) == (1, 0, 0, 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_that_the_engine_does_not_say_is_counted_and_marked(
    stream, gateway, client, engine
):
    async def silent(call: Call) -> None:
        if not stream:
            call.reply({"choices": ["x" * 100]})
            return
        call.begin_stream()
        call.event(chat_chunk({"role": "assistant"}))
        for word in WORDS:
            call.event(chat_chunk({"content": word}))
        call.event(b"[DONE]")
        call.end_stream()

    engine.behave = silent
    await client.ask(post(chat(stream=stream)))
    (row,) = usage_of(gateway)
    assert row.estimated == 1
    assert row.prompt_tokens > 0
    assert row.completion_tokens == (len(WORDS) if stream else 30)


async def test_a_cancelled_stream_is_charged_for_what_was_produced(gateway, client, engine):
    async def endless(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"role": "assistant"}))
        for _ in range(20):
            call.event(chat_chunk({"content": "x"}))
        await prefill(call)

    engine.behave = endless
    await client.ask(post(chat(stream=True)), head_only=True)
    await wait_until(lambda: usage_of(gateway)[0].completion_tokens == 20)  # while it runs
    assert traffic_of(gateway).in_flight == 1
    client.close()
    await wait_until(lambda: usage_of(gateway)[0].cancelled == 1)
    (row,) = usage_of(gateway)
    assert (row.completion_tokens, row.estimated, row.failed) == (20, 1, 0)
    assert traffic_of(gateway).client_aborts == 1
    assert traffic_of(gateway).in_flight == 0


async def test_a_request_that_is_cancelled_in_prefill_is_charged_nothing(gateway, client, engine):
    engine.behave = prefill
    await client.send(post(chat(stream=True)))
    await wait_until(lambda: engine.running)
    client.close()
    await wait_until(lambda: usage_of(gateway)[0].cancelled == 1)
    (row,) = usage_of(gateway)
    assert (row.requests, row.prompt_tokens, row.completion_tokens) == (1, 0, 0)


async def test_a_total_never_falls_when_the_engine_counts_less_than_passed(gateway, client, engine):
    async def counts_less(call: Call) -> None:
        call.begin_stream()
        for _ in range(10):
            call.event(chat_chunk({"content": "x"}))
        await wait_until(lambda: usage_of(gateway)[0].completion_tokens == 9)
        call.event(usage_chunk(5, 4))
        call.event(b"[DONE]")
        call.end_stream()

    engine.behave = counts_less
    await client.ask(post(chat(stream=True)))
    assert usage_of(gateway)[0].completion_tokens == 9  # one event of ten is a chat's first
    engine.behave = answer
    await client.ask(post(chat()))
    assert usage_of(gateway)[0].completion_tokens == 9
    await client.ask(post(chat()))
    assert usage_of(gateway)[0].completion_tokens == 4 + 2 * len(WORDS)


async def test_a_reply_that_breaks_is_charged_and_counts_as_failed(gateway, client, engine):
    async def breaks(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"role": "assistant"}))
        for _ in range(5):
            call.event(chat_chunk({"content": "x"}))
        await asyncio.sleep(0.02)
        call.abort()

    engine.behave = breaks
    await client.ask(post(chat(stream=True)))
    (row,) = usage_of(gateway)
    assert (row.completion_tokens, row.failed, row.cancelled) == (5, 1, 0)
    seen = traffic_of(gateway)
    assert seen.engine_aborts == 1
    assert seen.errors == (RefusalCount(code="engine_failed", count=1),)


async def test_what_the_engine_said_by_then_counts_of_a_reply_that_breaks(gateway, client, engine):
    async def breaks(call: Call) -> None:
        call.begin_stream()
        for _ in range(5):
            call.event(chat_chunk({"content": "x"}))
        call.event(usage_chunk(7, 20))
        await asyncio.sleep(0.02)
        call.abort()

    engine.behave = breaks
    await client.ask(post(chat(stream=True)))
    (row,) = usage_of(gateway)
    assert (row.prompt_tokens, row.completion_tokens) == (7, 20)
    assert (row.failed, row.estimated) == (1, 0)


async def test_comments_of_an_engine_are_charged_to_nobody(gateway, client, engine):
    async def only_comments(call: Call) -> None:
        call.begin_stream()
        for _ in range(20):
            call.chunk(b": still there\n\n")
        await prefill(call)

    engine.behave = only_comments
    await client.ask(post(chat(stream=True)), head_only=True)
    client.close()
    await wait_until(lambda: usage_of(gateway)[0].cancelled == 1)
    assert usage_of(gateway)[0].completion_tokens == 0


async def test_a_request_that_no_engine_takes_is_counted_by_the_code_of_its_error(
    gateway, client, engine
):
    await engine.stop()
    assert (await client.ask(post(chat()))).code == "engine_unreachable"
    seen = traffic_of(gateway)
    assert seen.errors == (RefusalCount(code="engine_unreachable", count=1),)
    assert seen.refusals == ()


async def test_refusals_are_counted_by_code_and_charged_to_nobody(gateway, client):
    await client.ask(post(chat(), key=None))
    await client.ask(post(chat("other")))
    replies = {reply.code: reply.count for reply in traffic_of(gateway, "").replies}
    assert replies == {401: 1, 404: 1}
    assert {error.code: error.count for error in traffic_of(gateway, "").errors} == {
        "missing_api_key": 1,
        "model_not_found": 1,
    }
    assert usage_of(gateway) == []


async def test_totals_go_on_in_the_worker_that_replaces_another(
    gateway, client, start_gateway, connect, state
):
    await client.ask(post(chat(stream=True)))
    totals, traffic = usage_of(gateway), traffic_of(gateway)
    other = await start_gateway(state)
    stuck = msgspec.structs.replace(traffic, in_flight=3)
    other.front.books.resume(totals, [stuck])
    assert traffic_of(other) == msgspec.structs.replace(traffic, in_flight=0)
    await (await connect(other)).ask(post(chat(stream=True)))
    assert usage_of(other)[0].requests == 2
    assert usage_of(other)[0].completion_tokens == 2 * len(WORDS)
    assert traffic_of(other).duration.counts[-1] == 2


async def test_nothing_of_a_request_is_logged_with_its_key(client, capsys):
    await client.ask(post(chat(), key=UNKNOWN))
    await client.ask(post(b"{nope"))
    printed = "".join(capsys.readouterr())
    assert KEY not in printed
    assert UNKNOWN not in printed
