"""What the gateway puts together of a stream is byte for byte what the engine itself answers."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.gateway.proxy.gathered import GatheredReply
from llmgw.model.catalog import LLAMACPP
from llmgw.model.gateway import Route
from tests.fakes.gateway import KEY, GatewayHere, endpoint, table
from tests.fakes.rawclient import RawClient, Reply, post
from tests.real.conftest import Llama
from tests.real.gateway.conftest import ENGINE_KEY, LlamaServer, llama_server

pytestmark = pytest.mark.real

CHAT = b"/v1/chat/completions"
TEXT = b"/v1/completions"
HI = {"messages": [{"role": "user", "content": "Hi"}]}
ONE = {"prompt": "One two"}
ITS_OWN = re.compile(
    rb'"(?:created":\d+|id":"[^"]*"|system_fingerprint":"[^"]*"|timings":\{[^}]*\})'
)
"""What differs between two answers of the engine itself; the timings by their numbers alone."""
NOTHING_TO_SAY = {"max_tokens": 8, "logit_bias": [[2, 100]]}
CASES = (
    (TEXT, {**ONE, "max_tokens": 1}, True),
    (TEXT, {**ONE, "max_tokens": 300, "ignore_eos": True}, True),
    (TEXT, {**ONE, "max_tokens": 40, "stop": ["o"]}, True),
    (TEXT, {**ONE, "max_tokens": 30, "json_schema": {"type": "object"}}, True),
    (TEXT, {**ONE, **NOTHING_TO_SAY}, True),
    (TEXT, {**ONE, "max_tokens": 9, "stream": False}, True),
    (TEXT, {"prompt": ["a", "b"], "max_tokens": 5}, False),
    (TEXT, {**ONE, "max_tokens": 8, "logprobs": 2}, False),
    (TEXT, {**ONE, "max_tokens": 9, "grammar": "broken ::="}, False),
    (CHAT, {**HI, "max_tokens": 1}, True),
    (CHAT, {**HI, "max_tokens": 300, "ignore_eos": True}, True),
    (CHAT, {**HI, **NOTHING_TO_SAY}, True),
    (CHAT, {**HI, "max_tokens": 9, "stop": ["z"]}, True),
    (CHAT, {**HI, "max_tokens": 9, "response_format": {"type": "json_object"}}, True),
    (CHAT, {**HI, "max_tokens": 8, "logprobs": True}, False),
    (CHAT, {"messages": 5}, False),
)


@pytest.fixture(params=["llama", "xllamacpp"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LlamaServer]:
    program: Llama = request.getfixturevalue(request.param)
    async with llama_server(program, tmp_path, slot=512) as running:
        yield running


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the answers that the gateway put together, as they come."""
    answers: list[bytes] = []
    rest = GatheredReply.rest

    def noted(self: GatheredReply) -> bytes:
        answers.append(rest(self))
        return answers[-1]

    monkeypatch.setattr(GatheredReply, "rest", noted)
    return answers


@pytest.fixture
async def gateway(server: LlamaServer) -> AsyncIterator[GatewayHere]:
    place = endpoint(server.port, "m-0", key=ENGINE_KEY, engine=LLAMACPP)
    made = await GatewayHere().start(table(Route(model="m", endpoints=(place,), wanted=1)))
    yield made
    await made.stop()


async def test_gathered_answers_are_the_engines_own(
    server: LlamaServer, gateway: GatewayHere, gathered: list[bytes]
):
    for path, body, gathers in CASES:
        gathered.clear()
        asked = {"model": "m", "temperature": 0, "seed": 1, "cache_prompt": False, **body}
        own = await _ask(server.port, path, asked, ENGINE_KEY)
        got = await _ask(gateway.port, path, asked, KEY)
        kind = "content-type"
        assert (got.status, got.headers[kind]) == (own.status, own.headers[kind])
        assert ITS_OWN.sub(b"", got.body) == ITS_OWN.sub(b"", own.body), body
        assert gathered == ([got.body] if gathers and own.status == 200 else []), body


async def _ask(port: int, path: bytes, body: dict[str, Any], key: str) -> Reply:
    client = await RawClient.open(port)
    try:
        return await client.ask(post(body, path=path, key=key))
    finally:
        client.abort()
