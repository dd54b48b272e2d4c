"""The gateway before a real llama-server: what it produces, and that whoever leaves frees it."""

import openai
import pytest

from llmgw.gateway.frames import Counted
from llmgw.model.keys import UsageTotals
from tests.fakes.gateway import KEY, GatewayHere
from tests.fakes.rawclient import RawClient, chat, post
from tests.real.gateway.conftest import LlamaServer
from tests.waiting import wait_until

pytestmark = pytest.mark.real

FREED_WITHIN = 1.0
CHAT = b"/v1/chat/completions"
TEXT = b"/v1/completions"
LONG = "abcdefgh" * 4000
"""A token a character: some seconds of prefill."""
MESSAGES = [{"role": "user", "content": LONG[:20_000]}]


def last_usage(gateway: GatewayHere) -> list[UsageTotals]:
    gateway.worker.tell()
    counted = [one for one in gateway.reports if isinstance(one, Counted) and one.totals]
    return list(counted[-1].totals)


async def test_the_official_client_gets_words_and_usage_from_it(gateway: GatewayHere):
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY) as client:
        assert [model.id async for model in client.models.list()] == ["m"]
        text = await client.completions.create(
            model="m",
            prompt="The capital of France is",
            max_tokens=8,
            extra_body={"ignore_eos": True},
        )
        assert text.usage is not None
        assert text.usage.completion_tokens == 8
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], max_tokens=12, stream=True
        )
        chunks = [chunk async for chunk in stream]
        assert all(chunk.choices for chunk in chunks)  # the usage was ours to ask, not to show
        plain = await client.completions.create(
            model="m",
            prompt="One, two,",
            max_tokens=5,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        assert "".join([chunk.choices[0].text async for chunk in plain])
        with pytest.raises(openai.BadRequestError) as refused:
            await client.completions.create(model="m", prompt=LONG * 2, max_tokens=1)
        assert "context" in str(refused.value)
    (row,) = last_usage(gateway)
    assert (row.requests, row.estimated, row.failed) == (4, 0, 0)
    assert 8 + 5 < row.completion_tokens <= 8 + 5 + 12
    assert row.prompt_tokens > 10


async def test_a_client_that_leaves_after_three_tokens_frees_the_slot(
    gateway: GatewayHere, server: LlamaServer
):
    client = await RawClient.open(gateway.port)
    await client.ask(post(chat(stream=True, max_tokens=30_000, ignore_eos=True)), head_only=True)
    for _ in range(1 + 3):  # the role, then three tokens
        await client.event()
    assert await server.busy() == 1
    client.close()
    await server.until_busy(0, FREED_WITHIN)


async def test_a_client_that_leaves_a_stream_during_prefill_frees_the_slot(
    gateway: GatewayHere, server: LlamaServer
):
    for path in (b"/v1/completions", b"/v1/chat/completions"):
        client = await RawClient.open(gateway.port)
        body = {"prompt": LONG} if b"chat" not in path else {"messages": MESSAGES}
        await client.send(post({"model": "m", "stream": True, **body}, path=path))
        await server.until_busy(1, 10.0)
        client.close()
        await server.until_busy(0, FREED_WITHIN)
    (row,) = [row for row in last_usage(gateway) if row.model == "m"]
    assert (row.cancelled, row.completion_tokens) == (2, 0)


async def test_a_client_that_leaves_a_plain_request_during_prefill_frees_the_slot(
    gateway: GatewayHere, server: LlamaServer
):
    for path, body in ((TEXT, {"prompt": LONG}), (CHAT, {"messages": MESSAGES})):
        client = await RawClient.open(gateway.port)
        await client.send(post({"model": "m", **body}, path=path))
        await server.until_busy(1, 10.0)
        client.close()
        await server.until_busy(0, FREED_WITHIN)
    (row,) = [row for row in last_usage(gateway) if row.model == "m"]
    assert (row.cancelled, row.completion_tokens) == (2, 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_beside_a_running_stream_frees_its_slot(
    stream: bool, gateway: GatewayHere, server: LlamaServer
):
    other = await RawClient.open(gateway.port)
    await other.ask(post(chat(stream=True, max_tokens=30_000, ignore_eos=True)), head_only=True)
    client = await RawClient.open(gateway.port)
    body = {"model": "m", "prompt": "x", "max_tokens": 30_000, "ignore_eos": True}
    await client.send(post({**body, "stream": stream}, path=TEXT))
    await server.until_busy(2, 10.0)
    client.close()
    await server.until_busy(1, FREED_WITHIN)
    assert await other.event()  # whoever stays is not disturbed
    other.close()
    await server.until_busy(0, FREED_WITHIN)


async def test_many_clients_that_leave_at_once_leave_no_slot_and_no_connection_behind(
    gateway: GatewayHere, server: LlamaServer
):
    clients = [await RawClient.open(gateway.port) for _ in range(40)]
    body = {"model": "m", "prompt": LONG, "max_tokens": 100, "stream": True}
    for client in clients:
        await client.send(post(body, path=TEXT))
    await server.until_busy(2, 20.0)
    for client in clients:
        client.close()
    await server.until_busy(0, 3.0)
    await wait_until(lambda: not gateway.front.connections)
    fresh = await RawClient.open(gateway.port)
    reply = await fresh.ask(post({"model": "m", "prompt": "One", "max_tokens": 1}, path=TEXT))
    assert reply.status == 200
