"""What the official client can do besides words: the gateway changes nothing of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from llmgw.model.catalog import LLAMACPP
from llmgw.model.gateway import Route
from tests.fakes.gateway import KEY, GatewayHere, endpoint, key_record, table
from tests.fakes.rawclient import RawClient
from tests.real.conftest import Llama
from tests.real.gateway.conftest import ENGINE_KEY, LlamaServer, llama_server
from tests.waiting import wait_until

pytestmark = pytest.mark.real

HI: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the weather in Paris?"}
]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n# Tools\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\nFor each call return a json object within <tool_call></tool_call>:\\n' }}
{{- '<tool_call>\\n{"name": <name>, "arguments": <arguments>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""How models of the Qwen family are told of tools: the engine reads their calls by it."""


def asked_before(city: str) -> list[ChatCompletionMessageParam]:
    """Return a question, the call that answers it, and what came of it."""
    arguments = json.dumps({"city": city})
    return [
        {"role": "user", "content": f"Weather in {city}?"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": f"call{city}",
                    "type": "function",
                    "function": {"name": "weather", "arguments": arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": f"call{city}", "content": "sunny"},
    ]


CALLS: list[ChatCompletionMessageParam] = [
    *asked_before("Rome"),
    *asked_before("Oslo"),
    *asked_before("Lima"),
    {"role": "user", "content": "Weather in Paris?"},
]
"""A small model goes on as it was going."""
LONG = "All work and no play makes the cluster a dull place. " * 300
FREED_WITHIN = 3.0


@pytest.fixture
async def server(llama: Llama, gemma: Path, tmp_path: Path) -> AsyncIterator[LlamaServer]:
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATE)
    options = ("--device", "none", "--jinja", "--chat-template-file", str(template))
    async with llama_server(replace(llama, model=gemma), tmp_path, *options, slot=8192) as running:
        yield running


@pytest.fixture
async def gateway(server: LlamaServer) -> AsyncIterator[GatewayHere]:
    made = await GatewayHere().start(table(route(server)))
    yield made
    await made.stop()
    RawClient.abort_all()


def route(server: LlamaServer) -> Route:
    place = endpoint(server.port, "m-0", key=ENGINE_KEY, engine=LLAMACPP)
    return Route(model="m", endpoints=(place,), wanted=1)


@pytest.fixture
async def client(gateway: GatewayHere) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY, max_retries=0) as made:
        yield made


@pytest.fixture
async def direct(server: LlamaServer) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"http://127.0.0.1:{server.port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=ENGINE_KEY, max_retries=0) as made:
        yield made


async def test_tools_are_called_whole_and_streamed_as_by_the_engine_itself(client, direct):
    asked = {
        "model": "m",
        "messages": CALLS,
        "tools": [WEATHER],
        "temperature": 0,
        "seed": 1,
        "max_tokens": 40,
    }
    told = []
    for one in (direct, client):
        whole = await one.chat.completions.create(**asked)
        (choice,) = whole.choices
        calls = choice.message.tool_calls or ()
        told.append(
            (choice.finish_reason, [(c.function.name, c.function.arguments) for c in calls])
        )
        told.append(await streamed_calls(one, asked))
    assert told == [told[0]] * 4
    assert told[0][1][0] == ("weather", '{"city": "Paris"}')


async def streamed_calls(
    client: openai.AsyncOpenAI, asked: dict[str, Any]
) -> tuple[str | None, list[tuple[str, str]]]:
    """Return why a stream ended, and the calls that its pieces make."""
    reason: str | None = None
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    async for chunk in await client.chat.completions.create(**asked, stream=True):
        for part in chunk.choices[0].delta.tool_calls or ():
            names[part.index] = names.get(part.index, "") + (part.function.name or "")
            arguments[part.index] = arguments.get(part.index, "") + (part.function.arguments or "")
        reason = chunk.choices[0].finish_reason or reason
    return reason, [(names[at], arguments[at]) for at in sorted(names)]


async def test_log_probabilities_are_the_engines_own_whole_and_streamed(client, direct):
    asked = {
        "model": "m",
        "messages": HI,
        "logprobs": True,
        "top_logprobs": 3,
        "temperature": 0,
        "max_tokens": 6,
    }
    told = []
    for one in (client, direct):
        whole = await one.chat.completions.create(**asked)
        told.append([(at.token, len(at.top_logprobs)) for at in whole.choices[0].logprobs.content])
        stream = await one.chat.completions.create(**asked, stream=True)
        told.append(
            [
                (at.token, len(at.top_logprobs))
                async for chunk in stream
                if chunk.choices and chunk.choices[0].logprobs is not None
                for at in chunk.choices[0].logprobs.content or ()
            ]
        )
    assert told == [told[0]] * 4
    assert {count for _, count in told[0]} == {3}


async def test_a_raw_response_has_the_gateways_headers_and_parses(client):
    raw = await client.chat.completions.with_raw_response.create(
        model="m", messages=HI, max_tokens=3
    )
    assert raw.status_code == 200
    assert raw.headers["x-request-id"].startswith("req-test-")
    assert raw.headers["content-type"].startswith("application/json")
    assert not {"server", "access-control-allow-origin"} & set(raw.headers)
    assert raw.parse().usage.completion_tokens == 3
    async with client.chat.completions.with_streaming_response.create(
        model="m", messages=HI, max_tokens=3, stream=True
    ) as streamed:
        assert streamed.headers["content-type"] == "text/event-stream"
        lines = [line async for line in streamed.iter_lines()]
    assert [line for line in lines if line][-1] == "data: [DONE]"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_timeout_is_the_clients_own_error_and_frees_the_slot(client, server, stream):
    begin = time.monotonic()
    with pytest.raises(openai.APITimeoutError):
        await client.completions.create(
            model="m", prompt=LONG, max_tokens=500, timeout=0.3, stream=stream
        )
    assert time.monotonic() - begin < 5.0
    await server.until_busy(0, FREED_WITHIN)


async def test_a_refusal_that_passes_is_tried_again_by_the_client_and_one_that_does_not_is_not(
    gateway: GatewayHere, server: LlamaServer
):
    statuses: list[int] = []

    async def noted(response: httpx.Response) -> None:
        statuses.append(response.status_code)

    empty = Route(model="m", reason="it is being placed")
    gateway.show(table(empty))
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY, max_retries=3) as client:
        client._client.event_hooks["response"].append(noted)
        asked = asyncio.ensure_future(
            client.completions.create(model="m", prompt="One", max_tokens=1)
        )
        await wait_until(lambda: statuses)
        gateway.show(table(route(server)))
        assert (await asked).choices
        assert (statuses[0], statuses[-1]) == (503, 200)
        statuses.clear()
        with pytest.raises(openai.NotFoundError):
            await client.completions.create(model="other", prompt="One", max_tokens=1)
        assert statuses == [404]


async def test_a_limit_is_the_clients_rate_limit_error_and_is_waited_for(
    gateway: GatewayHere, server: LlamaServer
):
    limited = key_record(KEY, concurrent=1)
    gateway.show(table(route(server), keys=[limited]))
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY, max_retries=0) as client:
        stream = await client.completions.create(
            model="m", prompt="One", max_tokens=200, stream=True, extra_body={"ignore_eos": True}
        )
        with pytest.raises(openai.RateLimitError) as refused:
            await client.completions.create(model="m", prompt="One", max_tokens=1)
        assert refused.value.code == "over_concurrent"
        assert refused.value.response.headers["retry-after"] == "1"
        patient = client.with_options(max_retries=5)
        asked = asyncio.ensure_future(
            patient.completions.create(model="m", prompt="One", max_tokens=1)
        )
        await stream.close()
        assert (await asked).choices
