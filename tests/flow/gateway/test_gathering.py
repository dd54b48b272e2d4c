"""llama.cpp is asked to stream what its client gets whole, so that it notices who leaves."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from llmgw.gateway.frames import Counted
from llmgw.gateway.proxy.exchange import Exchange
from llmgw.model.catalog import LLAMACPP
from llmgw.model.gateway import Route
from tests.fakes.engine import (
    PROMPT_TOKENS,
    WORDS,
    Behaviour,
    Call,
    FakeEngine,
    answer,
    chat_chunk,
    prefill,
    usage_chunk,
)
from tests.fakes.gateway import GatewayHere, endpoint, table
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.waiting import wait_until

TEXT = b"/v1/completions"
PROGRESS = {**chat_chunk({"role": "assistant"}), "prompt_progress": {"total": 5, "processed": 5}}
USAGE = usage_chunk(PROMPT_TOKENS, len(WORDS))


def llamacpp(*engines: FakeEngine) -> Route:
    places = tuple(
        endpoint(engine.port, f"m-{number}", engine=LLAMACPP)
        for number, engine in enumerate(engines)
    )
    return Route(model="m", endpoints=places, wanted=len(places))


@pytest.fixture
async def gateway(engine: FakeEngine, start_gateway) -> GatewayHere:
    made: GatewayHere = await start_gateway(table(llamacpp(engine)))
    return made


@pytest.fixture
async def client(gateway: GatewayHere, connect) -> RawClient:
    made: RawClient = await connect(gateway)
    return made


def streams(*events: object, done: bool = True) -> Behaviour:
    """Return an engine that streams these where it is asked to, and else answers as usual."""

    async def behave(call: Call) -> None:
        if not call.json.get("stream"):
            await answer(call)
            return
        call.begin_stream()
        for event in events:
            call.event(event)
            await asyncio.sleep(0)
        if done:
            call.event(b"[DONE]")
        call.end_stream()

    return behave


def text_chunk(text: str, finish: str | None = None, **more: object) -> dict[str, Any]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
    return {"choices": [choice], "created": 2, "model": "e", "object": "text_completion", **more}


def row_of(gateway: GatewayHere) -> tuple[int, int, int, int, int]:
    gateway.worker.tell()
    counted = [one for one in gateway.reports if isinstance(one, Counted) and one.totals]
    row = counted[-1].totals[0]
    return (
        row.requests,
        row.prompt_tokens,
        row.completion_tokens,
        row.cancelled,
        row.estimated,
    )


WHOLE = streams(
    PROGRESS,
    chat_chunk({"role": "assistant", "content": None}),
    *[chat_chunk({"content": word}) for word in WORDS],
    chat_chunk({}, "stop"),
    {**USAGE, "timings": {"predicted_n": 3}},
)


async def test_a_chat_is_put_together_as_the_engine_would_have_answered(gateway, client, engine):
    engine.behave = WHOLE
    reply = await client.ask(post(chat()))
    assert reply.headers["content-type"].startswith("application/json")
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert reply.json == {
        "choices": [
            {
                "finish_reason": "stop",
                "index": 0,
                "message": {"role": "assistant", "content": "".join(WORDS)},
            }
        ],
        "created": 1,
        "model": "engine-name",
        "object": "chat.completion",
        "usage": USAGE["usage"],
        "id": "chatcmpl-1",
        "timings": {"predicted_n": 3},
    }
    (call,) = engine.calls
    assert (call.json["stream"], call.json["return_progress"]) == (True, True)
    assert call.json["stream_options"] == {"include_usage": True}
    assert row_of(gateway) == (1, PROMPT_TOKENS, len(WORDS), 0, 0)
    assert (await client.ask(get(b"/v1/models"))).status == 200  # the connection goes on


async def test_a_text_and_a_thought_are_put_together_too(client, engine):
    usage = {"usage": USAGE["usage"], "id": "c-1"}
    engine.behave = streams(
        text_chunk('"a\n', id="c-1"), text_chunk("ü", id="c-1"), text_chunk("", "length", **usage)
    )
    reply = await client.ask(post({"model": "m", "prompt": "x", "stream": False}, path=TEXT))
    assert reply.json == text_chunk('"a\nü', "length", **usage)
    assert engine.calls[-1].body.count(b'"stream"') == 1
    engine.behave = streams(
        chat_chunk({"reasoning_content": "so"}),
        chat_chunk({"reasoning_content": " so"}),
        chat_chunk({"content": "yes"}),
        chat_chunk({}, "stop"),
        USAGE,
    )
    message = (await client.ask(post(chat()))).json["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "yes", "reasoning_content": "so so"}


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function"}]},
        {"logprobs": True},
        {"n_probs": 2},
        {"n": 2},
        {"n_cmpl": 2},
        {"stream_options": {"include_usage": True}},
        {"timings_per_token": True},
    ],
)
async def test_what_could_differ_is_asked_for_as_it_was_written(more, client, engine):
    body = msgspec.json.encode(chat(**more))
    assert (await client.ask(post(body))).status == 200
    assert engine.calls[-1].body == body


async def test_several_prompts_and_embeddings_are_asked_for_as_written(client, engine):
    for path in (TEXT, b"/v1/embeddings"):
        body = msgspec.json.encode({"model": "m", "prompt": ["a", "b"], "input": "x"})
        await client.ask(post(body, path=path))
        assert engine.calls[-1].body == body


@pytest.mark.parametrize(
    ("events", "again"),
    [
        ((chat_chunk({"content": "x", "annotations": []}), USAGE), False),
        (({**chat_chunk({"content": "x"}), "new": 1}, USAGE), False),
        ((chat_chunk({"role": "tool"}), USAGE), False),
        ((b"{half", USAGE), False),
        ((chat_chunk({"content": "x"}, "stop"),), True),
        ((USAGE,), True),
        ((chat_chunk({"content": "x"}), {"error": {"code": 500, "message": "no"}}), True),
    ],
)
async def test_what_is_not_understood_is_asked_for_once_more_as_it_was_written(
    events, again, gateway, client, engine
):
    engine.behave = streams(*events)
    reply = await client.ask(post(chat()))
    assert reply.json["choices"][0]["message"]["content"] == "".join(WORDS)
    first, second = engine.calls
    assert (first.json.get("stream"), second.json.get("stream")) == (True, None)
    assert row_of(gateway) == (1, PROMPT_TOKENS, len(WORDS), 0, 0)
    # Only a stream with something new in it says anything of the next one.
    await client.ask(post(chat()))
    assert engine.calls[2].json.get("stream") is (True if again else None)


async def test_an_answer_without_an_end_is_not_taken_for_a_whole_one(client, engine):
    engine.behave = streams(chat_chunk({"content": "x"}, "stop"), USAGE, done=False)
    assert (await client.ask(post(chat()))).json["usage"] == USAGE["usage"]
    assert len(engine.calls) == 2


async def test_an_error_before_the_stream_passes_as_it_is(client, engine):
    async def refuses(call: Call) -> None:
        call.reply({"error": {"code": 400, "message": "too long"}}, status=400)

    engine.behave = refuses
    reply = await client.ask(post(chat()))
    assert (reply.status, reply.json["error"]["message"]) == (400, "too long")
    assert len(engine.calls) == 1


async def test_an_engine_that_dies_in_the_middle_is_replaced_unseen(
    engine, start_engine, start_gateway, connect
):
    async def dies(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"content": "lost"}))
        call.abort()

    other = await start_engine(WHOLE)
    engine.behave = dies
    gateway = await start_gateway(table(llamacpp(engine, other)))
    for _ in range(8):
        client = await connect(gateway)
        reply = await client.ask(post(chat()))
        assert reply.json["choices"][0]["message"]["content"] == "".join(WORDS)
    assert engine.calls


async def test_a_client_that_leaves_takes_it_along_and_is_charged_what_was_produced(
    gateway, client, engine
):
    async def endless(call: Call) -> None:
        call.begin_stream()
        for _ in range(20):
            call.event(chat_chunk({"content": "x"}))
        await prefill(call)

    engine.behave = endless
    await client.send(post(chat()))
    await wait_until(lambda: engine.running)
    (connection,) = gateway.front.connections
    exchange = cast("Exchange", connection._running)
    await wait_until(lambda: exchange._reply.produced == 20)
    client.close()
    await wait_until(lambda: not engine.running)
    requests, prompt, completion, cancelled, estimated = row_of(gateway)
    assert (requests, completion, cancelled, estimated) == (1, 20, 1, 1)
    assert prompt > 0


async def test_a_long_answer_takes_as_long_as_it_takes(engine, start_gateway, connect):
    async def slowly(call: Call) -> None:
        call.begin_stream()
        for word in WORDS:
            call.event(chat_chunk({"content": word}))
            await asyncio.sleep(0.4)
        call.event(chat_chunk({}, "stop"))
        call.event(USAGE)
        call.event(b"[DONE]")
        call.end_stream()

    engine.behave = slowly
    state = table(llamacpp(engine), first_byte_timeout=0.6, idle_timeout=0.9)
    gateway = await start_gateway(state)
    reply = await (await connect(gateway)).ask(post(chat()))
    assert reply.json["choices"][0]["message"]["content"] == "".join(WORDS)
