"""Who may ask what, where it goes, and what is written down about it."""

import asyncio

import msgspec
import pytest

from llmgw.gateway.frames import TableFrame
from llmgw.gateway.table import Table
from llmgw.model.gateway import Route
from tests.fakes.engine import (
    WORDS,
    Call,
    FakeEngine,
    chat_chunk,
)
from tests.fakes.gateway import KEY, GatewayHere, key_record, route, table
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.flow.gateway.conftest import Connect, StartGateway

LIMITED = "llmgw_k2_" + "t" * 43
EXPIRED = "llmgw_k3_" + "u" * 43
UNKNOWN = "llmgw_k9_" + "v" * 43


@pytest.fixture
def state(engine: FakeEngine) -> Table:
    return table(
        route([engine.port]),
        Route(model="org/empty:1", wanted=2, reason="gpu-03: 8 GB of memory, needs 24"),
        keys=[key_record(LIMITED, models=("org/empty:1",)), key_record(EXPIRED, expires=10.0)],
    )


@pytest.fixture
async def gateway(start_gateway: StartGateway, state: Table) -> GatewayHere:
    return await start_gateway(state)


@pytest.fixture
async def client(gateway: GatewayHere, connect: Connect) -> RawClient:
    return await connect(gateway)


# Keys.


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "missing_api_key"),
        (UNKNOWN, "invalid_api_key"),
        (KEY[:-1] + "x", "invalid_api_key"),
        (KEY + "x", "invalid_api_key"),
        ("sk-whatever", "invalid_api_key"),
        ("llmgw_", "invalid_api_key"),
        ("llmgw__", "invalid_api_key"),
        ("x' OR (SELECT pg_sleep(8)) IS NOT NULL --", "invalid_api_key"),
        (EXPIRED, "expired_api_key"),
    ],
)
async def test_a_key_that_is_not_good_is_401_with_its_reason(key, code, client, engine):
    reply = await client.ask(post(chat(), key=key))
    assert (reply.status, reply.code) == (401, code)
    assert reply.headers["www-authenticate"] == "bearer"
    assert engine.calls == []


async def test_a_scheme_other_than_bearer_is_refused(client):
    reply = await client.ask(post(chat(), b"Authorization: Basic " + KEY.encode(), key=None))
    assert (reply.status, reply.code) == (401, "invalid_api_key")


async def test_without_a_table_nobody_is_called_wrong(gateway, client, state):
    gateway.show(Table(), received=False, current=False)
    for key in (KEY, UNKNOWN, "sk-1", None):
        reply = await client.ask(post(chat(), key=key))
        assert (reply.status, reply.code) == (503, "no_table")
        assert int(reply.headers["retry-after"]) >= 1
    assert (await client.ask(get(b"/healthz", key=None))).status == 503
    gateway.show(state)
    assert (await client.ask(post(chat()))).status == 200


async def test_while_the_control_plane_is_away_known_keys_are_served_and_unknown_ones_wait(
    gateway, client, state
):
    gateway.show(state, current=False)
    assert (await client.ask(post(chat()))).status == 200
    reply = await client.ask(post(chat(), key=UNKNOWN))
    assert (reply.status, reply.code) == (503, "key_not_known_yet")
    assert int(reply.headers["retry-after"]) >= 1
    assert (await client.ask(post(chat(), key=KEY[:-1] + "x"))).status == 401
    health = await client.ask(get(b"/healthz", key=None))
    assert health.json == {"status": "ok", "control_plane": "away"}


async def test_a_key_that_was_removed_is_refused_on_an_open_connection(gateway, client):
    assert (await client.ask(post(chat()))).status == 200
    gateway.worker.take(TableFrame(gone_keys=("k1",), received=True, current=True))
    assert (await client.ask(post(chat()))).status == 401


# Models and paths.


async def test_models_are_those_that_the_key_may_use(client):
    listed = await client.ask(get(b"/v1/models"))
    assert [model["id"] for model in listed.json["data"]] == ["m", "org/empty:1"]
    assert set(listed.json["data"][0]) == {"id", "object", "created", "owned_by"}
    mine = await client.ask(get(b"/v1/models", key=LIMITED))
    assert [model["id"] for model in mine.json["data"]] == ["org/empty:1"]
    for path in (b"/v1/models/org/empty:1", b"/v1/models/org%2Fempty%3A1", b"/v1/models/m?x=1"):
        assert (await client.ask(get(path))).status == 200
    assert (await client.ask(get(b"/v1/models/m", key=LIMITED))).code == "model_not_allowed"
    assert (await client.ask(get(b"/v1/models/other"))).code == "model_not_found"


async def test_a_model_that_is_not_there_is_404_and_one_that_is_not_allowed_403(client):
    reply = await client.ask(post(chat("other\n\x1b[31m")))
    assert (reply.status, reply.code) == (404, "model_not_found")
    assert reply.json["error"]["param"] == "model"
    assert b"\\\\x1b" in reply.body
    reply = await client.ask(post(chat("m"), key=LIMITED))
    assert (reply.status, reply.code) == (403, "model_not_allowed")


async def test_a_model_that_nothing_serves_is_503_with_the_reason_of_its_route(client):
    reply = await client.ask(post(chat("org/empty:1")))
    assert (reply.status, reply.code) == (503, "no_replica")
    assert "gpu-03: 8 GB of memory, needs 24" in reply.json["error"]["message"]
    assert int(reply.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        get(b"/"),
        get(b"/v1"),
        get(b"/v1/chat/completions"),
        get(b"/slots"),
        get(b"/metrics"),
        get(b"/v1/../slots"),
        get(b"/v1/models/../../slots"),
        get(b"//v1/models"),
        get(b"/v1/%2e%2e/slots"),
        post(chat(), path=b"/v1/models"),
        post(chat(), path=b"/v1/chat/completions/"),
        post(chat(), path=b"/update_weights_from_tensor"),
        post(chat(), path=b"/v1/load_lora_adapter"),
        post(chat(), path=b"/tokenize"),
        post(chat(), path=b"/healthz"),
        get(b"/v1/models", method=b"DELETE"),
        get(b"/v1/chat/completions", method=b"OPTIONS"),
    ],
)
async def test_paths_that_are_not_on_the_list_never_reach_an_engine(request_bytes, client, engine):
    reply = await client.ask(request_bytes)
    assert reply.status == 404
    assert reply.code in {"unknown_path", "model_not_found"}
    assert engine.calls == []


@pytest.mark.parametrize("target", [b"/v1/chat/completions?a=b", b"http://x/v1/chat/completions"])
async def test_a_query_or_a_whole_address_names_the_same_path(target, client, engine):
    assert (await client.ask(post(chat(), path=target))).status == 200
    assert engine.calls[0].path == "/v1/chat/completions"


async def test_text_completions_and_embeddings_pass_through(client, engine):
    async def embed(call: Call) -> None:
        call.reply({"data": [], "usage": {"prompt_tokens": 4, "total_tokens": 4}})

    assert (await client.ask(post({"model": "m"}, path=b"/v1/completions"))).status == 200
    engine.behave = embed
    body = {"model": "m", "input": [[1, 2], [3, 4]]}
    assert (await client.ask(post(body, path=b"/v1/embeddings"))).status == 200
    assert [call.path for call in engine.calls] == ["/v1/completions", "/v1/embeddings"]
    assert engine.calls[1].json == body


async def test_stopping_the_system_stops_every_post_and_nothing_else(gateway, client, engine):
    gateway.show(table(route([engine.port]), stopped=True))
    for path in (b"/v1/chat/completions", b"/v1/embeddings", b"/v1/anything"):
        reply = await client.ask(post(chat(), path=path))
        assert (reply.status, reply.code) == (503, "system_stopped")
    assert (await client.ask(post(chat(), key=UNKNOWN))).status == 401
    assert (await client.ask(get(b"/v1/models"))).status == 200
    assert engine.calls == []


async def test_streams_go_on_when_their_route_changes_or_the_system_stops(
    gateway, client, engine, start_engine
):
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"content": "one"}))
        await go_on.wait()
        call.event(b"[DONE]")
        call.end_stream()

    engine.behave = slowly
    await client.ask(post(chat(stream=True)), head_only=True)
    await client.event()
    other = await start_engine()
    gateway.show(table(route([other.port]), stopped=True))
    go_on.set()
    assert await client.event() == b"data: [DONE]\n\n"


# What is edited in a body.


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {"include_usage": True}),
        ({"stream_options": None}, {"include_usage": True}),
        ({"stream_options": {"include_usage": False}}, {"include_usage": True}),
        ({"stream_options": {"x": 1}}, {"x": 1, "include_usage": True}),
    ],
)
async def test_usage_that_the_client_did_not_ask_for_is_asked_for_and_taken_out(
    options, sent, client, engine
):
    body = chat(stream=True, **options)
    reply = await client.ask(post(body))
    assert engine.calls[0].json == {**body, "stream_options": sent}
    assert b"usage" not in reply.body
    assert len(reply.events) == len(WORDS) + 3


async def test_usage_that_the_client_asked_for_reaches_it(client, engine):
    body = chat(stream=True, stream_options={"include_usage": True})
    reply = await client.ask(post(body))
    assert engine.calls[0].json == body
    assert reply.events[-2]["usage"]["completion_tokens"] == len(WORDS)


async def test_a_model_is_renamed_for_an_engine_that_answers_to_another_name(
    gateway, client, engine
):
    place = msgspec.structs.replace(route([engine.port]).endpoints[0], served_name="/w/a.gguf")
    gateway.show(table(Route(model="m", endpoints=(place,), wanted=1)))
    raw = b'{"x": {"model": "m"}, "model" :  "m", "y": "\\"model\\": \\"m\\""}'
    await client.ask(post(raw))
    assert engine.calls[0].body == raw.replace(b':  "m"', b':  "/w/a.gguf"')


async def test_llama_cpp_is_asked_for_its_progress_and_the_client_does_not_see_it(
    gateway, client, engine
):
    async def progress(call: Call) -> None:
        call.begin_stream()
        for done in range(3):
            call.event(
                {**chat_chunk({"role": "assistant"}), "prompt_progress": {"processed": done}}
            )
        await answer_events(call)

    async def answer_events(call: Call) -> None:
        for word in WORDS:
            call.event(chat_chunk({"content": word}))
        call.event(b"[DONE]")
        call.end_stream()

    engine.behave = progress
    place = msgspec.structs.replace(route([engine.port]).endpoints[0], engine="llamacpp")
    gateway.show(table(Route(model="m", endpoints=(place,), wanted=1)))
    reply = await client.ask(post(chat(stream=True)))
    assert engine.calls[-1].json["return_progress"] is True
    assert b"prompt_progress" not in reply.body
    assert len(reply.events) == len(WORDS) + 1
    asked = await client.ask(post(chat(stream=True, return_progress=True)))
    assert asked.body.count(b"prompt_progress") == 3
    await client.ask(post(chat(stream=True, return_progress=False)))
    assert engine.calls[-1].json["return_progress"] is False


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"{nope", "invalid_json", None),
        (b"\xff\xfe", "invalid_json", None),
        (b'{"model": "m", "x": "\xff"}', "invalid_json", None),
        (b'{"model": "m", "\xc3": 1}', "invalid_json", None),
        (b'{"model": "m", "n_cmpl": 100000}', "invalid_value", "n_cmpl"),
        (b'{"model": "m", "n_probs": 1e300}', "invalid_value", "n_probs"),
        (b'{"model": "m", "n_keep": -99999999999}', "invalid_value", "n_keep"),
        (b'{"model": "m", "mirostat_tau": 1e400}', "invalid_value", "mirostat_tau"),
        (b'{"model": "m", "x": ' + b"[" * 100_000, "invalid_json", None),
        (b"[]", "invalid_value", None),
        (b"{}", "invalid_value", "model"),
        (b'{"model": 5}', "invalid_value", "model"),
        (b'{"model": ""}', "invalid_value", "model"),
        (b'{"model": "%s"}' % (b"m" * 600), "invalid_value", "model"),
        (b'{"model": "m", "n": 100000}', "invalid_value", "n"),
        (b'{"model": "m", "n": 0}', "invalid_value", "n"),
        (b'{"model": "m", "max_tokens": 99999999999999999999999}', "invalid_value", "max_tokens"),
        (b'{"model": "m", "max_tokens": -5}', "invalid_value", "max_tokens"),
        (b'{"model": "m", "best_of": 1e9}', "invalid_value", "best_of"),
        (b'{"model": "m", "temperature": 1e300}', "invalid_value", "temperature"),
        (b'{"model": "m", "stream": "yes"}', "invalid_value", "stream"),
        (b'{"model": "m", "stream": true, "stream_options": 5}', "invalid_value", "stream_options"),
    ],
)
async def test_a_body_that_no_engine_should_see_is_refused(body, code, param, client, engine):
    reply = await client.ask(post(body))
    assert (reply.status, reply.code, reply.json["error"]["param"]) == (400, code, param)
    assert engine.calls == []
    assert (await client.ask(post(chat()))).status == 200


async def test_fields_that_would_make_others_connect_go_to_the_engine_alone(client, engine):
    body = chat(api_base="http://127.0.0.1:9", base_url="http://127.0.0.1:9")
    assert (await client.ask(post(body))).status == 200
    assert engine.calls[0].json == body


# The official client.


async def test_the_official_client_works_unchanged(gateway):
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY) as client:
        assert [model.id async for model in client.models.list()] == ["m", "org/empty:1"]
        assert (await client.models.retrieve("org/empty:1")).id == "org/empty:1"
        messages = [{"role": "user", "content": "hi"}]
        reply = await client.chat.completions.create(model="m", messages=messages)
        assert reply.choices[0].message.content == "".join(WORDS)
        assert reply.usage.completion_tokens == len(WORDS)
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        words = [chunk.choices[0].delta.content async for chunk in stream]
        assert "".join(word or "" for word in words) == "".join(WORDS)
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="other", messages=messages)
        assert missing.value.code == "model_not_found"
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=UNKNOWN) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()


async def test_the_official_client_raises_when_a_stream_breaks(gateway, engine):
    openai = pytest.importorskip("openai")

    async def breaks(call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"content": "one"}))
        await asyncio.sleep(0.02)
        call.abort()

    engine.behave = breaks
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key=KEY) as client:
        messages = [{"role": "user", "content": "hi"}]
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        with pytest.raises(openai.APIError) as broken:
            [chunk async for chunk in stream]
        assert broken.value.code == "engine_failed"
