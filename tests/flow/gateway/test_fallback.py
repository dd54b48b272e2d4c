"""Public names with several models, and what stands in when nothing can serve: who gets what."""

import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from llmgw.gateway.keyfiles import KeyFiles
from llmgw.gateway.proxy.endpoints import shared
from llmgw.model.gateway import Endpoint, FallbackCount, Route, Split
from tests.fakes.engine import Call, FakeEngine, loading, prefill, reset
from tests.fakes.gateway import KEY, GatewayHere, key_record, route, table
from tests.fakes.rawclient import chat, get, post
from tests.flow.gateway.conftest import Connect, StartEngine, StartGateway
from tests.flow.gateway.process import ask
from tests.waiting import wait_until

NARROW_KEY = "llmgw_k3_" + "n" * 43
SECRET = "sk-of-the-provider"


def outside(port: int, **more: object) -> Endpoint:
    fields = {"key": SECRET, "base_path": "/openai/v1", "served_name": "big-1", **more}
    return Endpoint(
        replica="outside/p/big-1",
        host="127.0.0.1",
        port=port,
        is_outside=True,
        **fields,  # type: ignore[arg-type]
    )


def fallbacks(gateway: GatewayHere) -> tuple[FallbackCount, ...]:
    counted = gateway.front.books.take_changes()
    assert counted is not None
    return next(one.fallbacks for one in counted.traffic if one.model == "m")


# Weights.


async def test_a_public_name_is_shared_between_its_models_by_their_weights(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    usual, canary = await start_engine(), await start_engine()
    splits = (Split(model="v1", weight=3), Split(model="v2", weight=1))
    narrow = key_record(NARROW_KEY, models=("chat",))
    gateway = await start_gateway(
        table(
            Route(model="chat", splits=splits),
            route([usual.port], model="v1"),
            route([canary.port], model="v2"),
            keys=[narrow],
        )
    )
    client = await connect(gateway)
    for _ in range(80):
        asked = post(chat("chat"), key=NARROW_KEY)  # the public name alone has to be allowed
        assert (await client.ask(asked)).status == 200
    assert 8 <= len(canary.calls) <= 35
    assert len(usual.calls) + len(canary.calls) == 80
    assert {call.json["model"] for call in usual.calls} == {"v1"}
    assert {call.json["model"] for call in canary.calls} == {"v2"}
    assert (await client.ask(post(chat("v2"), key=NARROW_KEY))).status == 403
    assert (await client.ask(get(b"/v1/models/chat", key=NARROW_KEY))).status == 200


async def test_the_share_of_a_model_that_nothing_serves_goes_to_the_others(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    splits = (Split(model="v1", weight=1), Split(model="v2", weight=99))
    shown = table(
        Route(model="chat", splits=splits),
        route([engine.port], model="v1"),
        Route(model="v2", reason="starting"),
    )
    client = await connect(await start_gateway(shown))
    for _ in range(10):
        assert (await client.ask(post(chat("chat")))).status == 200


async def test_a_model_may_share_its_own_name(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    own, other = await start_engine(), await start_engine()
    splits = (Split(model="m", weight=1), Split(model="n", weight=1))
    shown = table(route([own.port], splits=splits), route([other.port], model="n"))
    client = await connect(await start_gateway(shown))
    for _ in range(30):
        assert (await client.ask(post(chat()))).status == 200
    assert own.calls
    assert other.calls


def test_shares_are_as_the_weights_say():
    class One:
        def __init__(self, model: str) -> None:
            self.model, self.engines = model, (1,)
            self.splits: tuple[Split, ...] = ()

    ways = {"a": One("a"), "b": One("b")}
    name = One("name")
    name.splits = (
        Split(model="a", weight=9),
        Split(model="b", weight=1),
        Split(model="x", weight=5),
    )
    rng = random.Random(1)
    found = Counter(shared(name, ways, rng.randrange).model for _ in range(2000))  # type: ignore[arg-type]
    assert set(found) == {"a", "b"}
    assert 140 <= found["b"] <= 260


# Fall-backs.


@pytest.mark.parametrize("fault", [reset, loading], ids=["reset", "loading"])
async def test_a_model_stands_in_when_no_replica_can_be_reached(
    fault, start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    bad, good = await start_engine(fault), await start_engine()
    shown = table(route([bad.port], fallback="n"), route([good.port], model="n"))
    gateway = await start_gateway(shown)
    client = await connect(gateway)
    for _ in range(3):
        reply = await client.ask(post(chat(stream=True)))
        assert (reply.status, reply.events[-1]) == (200, "[DONE]")
    assert {call.json["model"] for call in good.calls} == {"n"}
    assert fallbacks(gateway) == (FallbackCount(to="n", reason="unreachable", count=3),)


async def test_a_model_stands_in_for_one_that_has_no_replica(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    shown = table(Route(model="m", fallback="n"), route([engine.port], model="n"))
    gateway = await start_gateway(shown)
    assert (await (await connect(gateway)).ask(post(chat()))).status == 200
    assert fallbacks(gateway) == (FallbackCount(to="n", reason="no_replica", count=1),)


async def test_where_what_stands_in_cannot_serve_either_the_refusal_is_one(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    bad, worse = await start_engine(reset), await start_engine(reset)
    shown = table(route([bad.port], fallback="n"), route([worse.port], model="n", fallback="m"))
    reply = await (await connect(await start_gateway(shown))).ask(post(chat()))
    assert (reply.status, reply.code) == (503, "engine_unreachable")


async def test_a_model_that_is_started_by_requests_is_waited_for_and_then_stood_in_for(
    engine: FakeEngine, start_gateway: StartGateway, connect: Connect
):
    shown = table(
        Route(model="m", holds=True, reason="rests", fallback="n"),
        route([engine.port], model="n"),
        held_most=1,
        held_for=0.05,
    )
    gateway = await start_gateway(shown)
    first, second = await connect(gateway), await connect(gateway)
    await first.send(post(chat()))
    assert (await second.ask(post(chat()))).status == 200  # as many wait as may
    assert (await first.reply()).status == 200  # it has waited as long as it may
    assert fallbacks(gateway) == (FallbackCount(to="n", reason="no_replica", count=2),)


# Providers.


async def test_a_provider_gets_its_own_key_and_name_and_nothing_of_the_clients(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    provider = await start_engine()
    shown = table(Route(model="m", outside=outside(provider.port)))
    gateway = await start_gateway(shown)
    client = await connect(gateway)
    asked = post(chat(stream=True), b"Cookie: c=1", b"X-Api-Key: mine", b"OpenAI-Organization: o")
    reply = await client.ask(asked)
    assert reply.events[-1] == "[DONE]"
    (call,) = provider.calls
    assert call.path == "/openai/v1/chat/completions"
    assert call.json["model"] == "big-1"
    assert call.headers["authorization"] == f"Bearer {SECRET}"
    assert set(call.headers) <= {
        *("host", "authorization", "content-type", "content-length", "x-request-id", "accept")
    }
    assert KEY not in str(call.headers)
    assert KEY.encode() not in call.body
    assert fallbacks(gateway) == (FallbackCount(to="big-1", reason="no_replica", count=1),)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 500, 503])
async def test_what_a_provider_says_of_our_account_is_not_shown_to_clients(
    status: int, start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    async def refuse(call: Call) -> None:
        error = {"message": f"org-secret has no right to this: {SECRET}", "code": "x"}
        call.reply({"error": error}, status=status, headers=b"openai-organization: org-secret\r\n")

    provider = await start_engine(refuse)
    shown = table(Route(model="m", outside=outside(provider.port)))
    reply = await (await connect(await start_gateway(shown))).ask(post(chat()))
    assert (reply.status, reply.code) == (502, "fallback_failed")
    told = reply.body + str(reply.headers).encode()
    assert b"org-secret" not in told
    assert SECRET.encode() not in told


async def test_a_providers_words_on_the_request_itself_and_no_other_headers_pass(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    async def refuse(call: Call) -> None:
        call.reply({"error": {"message": "too long"}}, 400, b"set-cookie: a\r\nx-org: b\r\n")

    provider = await start_engine(refuse)
    shown = table(Route(model="m", outside=outside(provider.port)))
    reply = await (await connect(await start_gateway(shown))).ask(post(chat()))
    assert (reply.status, reply.json["error"]["message"]) == (400, "too long")
    assert not {"set-cookie", "x-org"} & set(reply.headers)


async def test_a_provider_stands_in_only_while_no_replica_serves(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    own, provider = await start_engine(), await start_engine()
    stands_in = outside(provider.port)
    gateway = await start_gateway(table(route([own.port], outside=stands_in)))
    client = await connect(gateway)
    assert (await client.ask(post(chat()))).status == 200
    assert (len(own.calls), len(provider.calls)) == (1, 0)
    gateway.show(table(Route(model="m", outside=stands_in)))
    assert (await client.ask(post(chat()))).status == 200
    gateway.show(table(route([own.port], outside=stands_in)))
    assert (await client.ask(post(chat()))).status == 200
    assert (len(own.calls), len(provider.calls)) == (2, 1)


async def test_a_client_that_leaves_takes_its_request_from_the_provider(
    start_engine: StartEngine, start_gateway: StartGateway, connect: Connect
):
    provider = await start_engine(prefill)
    shown = table(Route(model="m", outside=outside(provider.port)))
    client = await connect(await start_gateway(shown))
    await client.send(post(chat(stream=True)))
    await wait_until(lambda: provider.running == 1)
    client.abort()
    await wait_until(lambda: provider.running == 0)


# Keys in files.


def test_an_endpoint_whose_key_cannot_be_read_is_not_used(tmp_path: Path):
    files, secret = KeyFiles(), tmp_path / "key"
    keyed = msgspec.structs.replace(outside(1), key=None, key_file=str(secret))
    shown = Route(model="m", endpoints=(keyed,), outside=keyed)
    (found,) = files.with_keys([shown])
    assert (found.endpoints, found.outside) == ((), None)
    assert found.reason == "the keys of 1 endpoints can't be read"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o644)
    assert files.with_keys([shown])[0].outside is None
    secret.chmod(0o600)
    (found,) = files.with_keys([shown])
    assert found.outside is not None
    assert found.outside.key == found.endpoints[0].key == SECRET
    secret.write_text("a key\r\nwith: a header\n")
    assert files.with_keys([shown])[0].outside is None


async def test_a_key_that_a_file_holds_reaches_its_endpoint_alone(
    tmp_path: Path, gateway, plane, engine: FakeEngine
):
    secret = tmp_path / "p.key"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    stands_in = outside(engine.port, key=None, key_file=str(secret))
    plane.table = table(Route(model="m", outside=stands_in))
    await gateway.start()
    assert (await ask(gateway, post(chat()))).status == 200
    assert engine.calls[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET.encode() not in (gateway.state / "table").read_bytes()
