"""Paths and targets: what reaches an engine, as it was written, and what never does (TRU-6)."""

import json

import pytest

from llmgw.gateway.paths import FORMS, SERVED
from tests.fakes.engine import Call, FakeEngine
from tests.fakes.gateway import GatewayHere, endpoint, route, table
from tests.fakes.rawclient import RawClient, chat, get, post
from tests.flow.gateway.conftest import Connect, StartGateway

BODY = json.dumps({"model": "m", "input": "hi"}).encode()
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    b"\x00\xff\r\n--y\r\n--x--\r\n"
)


@pytest.fixture
async def gateway(start_gateway: StartGateway, engine: FakeEngine) -> GatewayHere:
    return await start_gateway(table(route([engine.port])))


@pytest.fixture
async def client(gateway: GatewayHere, connect: Connect) -> RawClient:
    return await connect(gateway)


def form(body: bytes = FORM, path: bytes = b"/v1/audio/transcriptions") -> bytes:
    head = post(body, path=path)
    return head.replace(b"application/json", b"multipart/form-data; boundary=x")


async def say(call: Call) -> None:
    call.reply(b'{"said": "\xff"}')


@pytest.mark.parametrize("path", sorted(SERVED - FORMS))
async def test_a_json_body_reaches_the_path_as_it_was_written(path, client, engine):
    engine.behave = say
    assert (await client.ask(post(BODY, path=path + b"?x=1"))).body == b'{"said": "\xff"}'
    assert (engine.calls[0].path, engine.calls[0].body) == (path.decode(), BODY)


@pytest.mark.parametrize("path", sorted(FORMS))
async def test_a_form_reaches_the_path_as_it_was_written(path, client, engine):
    engine.behave = say
    assert (await client.ask(form(path=path))).status == 200
    (call,) = engine.calls
    assert (call.path, call.body) == (path.decode(), FORM)
    assert call.headers["content-type"] == "multipart/form-data; boundary=x"


async def test_in_a_form_nothing_but_the_models_name_is_changed(
    start_gateway, start_engine, connect
):
    engine = await start_engine(say)
    way = route([engine.port]).__class__(
        model="m", endpoints=(endpoint(engine.port, "m-0", served_name="a/b"),), wanted=1
    )
    client = await connect(await start_gateway(table(way)))
    assert (await client.ask(form())).status == 200
    assert engine.calls[0].body == FORM.replace(b"\r\n\r\nm\r\n", b"\r\n\r\na/b\r\n")


async def test_a_form_where_a_json_body_belongs_is_refused_and_the_other_way_round(client, engine):
    assert (await client.ask(form(path=b"/v1/completions"))).code == "invalid_json"
    assert (await client.ask(post(BODY, path=b"/v1/audio/translations"))).code == "invalid_form"
    assert (await client.ask(form(FORM[1:]))).code == "invalid_form"
    assert engine.calls == []


async def test_what_a_streamed_response_used_is_read_from_its_last_event(gateway, client, engine):
    async def behave(call: Call) -> None:
        call.begin_stream()
        call.chunk(b'event: response.output_text.delta\ndata: {"delta": "hi"}\n\n')
        usage = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
        done = {"type": "response.completed", "response": {"usage": usage}}
        call.chunk(b"event: response.completed\ndata: %b\n\n" % json.dumps(done).encode())
        call.end_stream()

    engine.behave = behave
    body = {"model": "m", "input": "hi", "stream": True}
    reply = await client.ask(post(body, path=b"/v1/responses"))
    assert b"response.completed" in reply.body
    assert engine.calls[0].json == body  # no option of another API is added
    counted = gateway.front.books.take_changes()
    (row,) = counted.totals
    assert (row.prompt_tokens, row.completion_tokens, row.estimated) == (5, 9, 0)


@pytest.mark.parametrize(
    "target",
    [
        b"/slots",
        b"/metrics",
        b"/v1/load_lora_adapter",
        b"/v1/chat/completions/",
        b"/v1//completions",
        b"//v1/completions",
        b"/v1/../slots",
        b"/v1/%2e%2e/slots",
        b"/v1/chat%2Fcompletions",
        b"/v1/completions;x",
        b"/V1/completions",
        b"http://engine/slots",
        b"http:///v1/completions",
        b"*",
    ],
)
async def test_no_other_path_reaches_an_engine_however_it_is_written(target, client, engine):
    reply = await client.ask(post(BODY, path=target))
    assert reply.status in {400, 404}
    assert engine.calls == []


async def test_a_target_with_an_authority_is_served_by_its_path(client):
    assert (await client.ask(get(b"http://other:1/v1/models?x=y"))).status == 200
    assert (await client.ask(get(b"/v1/models/m"))).json["id"] == "m"
    assert (await client.ask(get(b"/v1/models/%6d"))).json["id"] == "m"
    assert (await client.ask(post(chat(), path=b"http://a/v1/chat/completions"))).status == 200


ALL = (
    "it serves GET /v1/models and POST /v1/audio/speech, /v1/audio/transcriptions, "
    "/v1/audio/translations, /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/rerank, "
    "/v1/responses"
)
NOT_YET = "Anthropic's API is not served yet: use /v1/chat/completions"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (post(BODY, path=b"/v1/messages"), NOT_YET),
        (post(BODY, path=b"/v1/messages/count_tokens"), NOT_YET),
        (
            get(b"/v1/responses/resp_1"),
            "responses are not kept here: POST /v1/responses is all that is served",
        ),
        (
            post(BODY, path=b"/v1/responses/resp_1/cancel"),
            "responses are not kept here: POST /v1/responses is all that is served",
        ),
        (
            get(b"/v1/chat/completions/chat_1"),
            "chats are not kept here: POST /v1/chat/completions is served",
        ),
        (get(b"/v1/completions"), "'GET /v1/completions' is not served by this gateway: use POST"),
        (get(b"/v1/responses"), "'GET /v1/responses' is not served by this gateway: use POST"),
        *(
            (
                post(BODY, path=path.encode()),
                f"'POST {path}' is not served by this gateway; {ALL}",
            )
            for path in (
                *("/v1/messagesx", "/v1/images/generations", "/v1/files", "/v1/batches"),
                *("/v1/moderations", "/v1/uploads", "/v1/assistants", "/v1/fine_tuning/jobs"),
            )
        ),
        (get(b"/slots"), "'GET /slots' is not served by this gateway"),
    ],
)
async def test_what_is_not_served_is_answered_with_what_is(sent, words, client, engine):
    reply = await client.ask(sent)
    assert reply.status == 404
    assert reply.json == {
        "error": {
            "message": words,
            "type": "invalid_request_error",
            "param": None,
            "code": "unknown_path",
        }
    }
    assert engine.calls == []
