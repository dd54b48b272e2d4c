"""The official OpenAI client, unmodified, against a whole cluster with a real llama-server."""

import asyncio
import os
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import msgspec
import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from llmgw.base.places import Places
from llmgw.local import demo_model
from llmgw.local.cluster import Layout, LocalCluster
from tests.cluster import FAST
from tests.real.cluster.watching import ready

pytestmark = pytest.mark.real

FREED_WITHIN = 1.0
PROFILE = {"context": 8192, "concurrency": 2, "arguments": ("-b", "32", "-ub", "32")}
"""A prompt that fills a slot takes seconds; between two small batches a request can be dropped."""
LONG = "All work and no play makes the cluster a dull place. " * 500
NAME = "gemma3-270m"


@dataclass
class Serving:
    """A cluster that serves one model, and the engine behind it."""

    cluster: LocalCluster
    key: str
    engine: str
    engine_key: str

    def client(self, key: str | None = None) -> openai.AsyncOpenAI:
        url = f"{self.cluster.gateway_url}/v1"
        return openai.AsyncOpenAI(base_url=url, api_key=key or self.key, max_retries=0)

    async def busy(self) -> int:
        """Return how many of llama-server's own slots work on a request."""
        headers = {"Authorization": f"Bearer {self.engine_key}"}
        async with httpx.AsyncClient() as http:
            slots = (await http.get(f"{self.engine}/slots", headers=headers)).json()
        return sum(slot["is_processing"] for slot in slots)

    async def until_busy(self, wanted: int, limit: float) -> None:
        """Wait until so many slots are busy, as an answer says that was asked for in time.

        llama-server answers between two batches: on a busy machine that is a while after.
        """
        end = time.monotonic() + limit
        asked = time.monotonic()
        while (now := await self.busy()) != wanted:
            assert asked < end, f"{now} busy slots, not {wanted}, after {limit:g} s"
            asked = time.monotonic()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    places = Places.find("agent", environ=os.environ, root=False)
    cluster = LocalCluster(
        Layout(
            directory=str(tmp_path_factory.mktemp("cluster") / "c"),
            weights=str(places.weights),
            engines=str(places.engines),
            settings=dict(FAST),
        ),
        os.environ,
    )
    try:
        cluster.start(agents=1)
        model = demo_model.real(NAME)
        profile = msgspec.structs.replace(model.profiles[0], **PROFILE)
        cluster.put_model(msgspec.structs.replace(model, profiles=(profile,)))
        (replica,) = ready(cluster, NAME, timeout=300.0)
        (shard,) = replica["shards"]
        (key_file,) = (cluster.agent_state("node-1") / "shards").glob("*/key")
        serves = Serving(
            cluster=cluster,
            key=cluster.make_key("user").reveal(),
            engine=f"http://127.0.0.1:{shard['port']}",
            engine_key=key_file.read_text().strip(),
        )
        cluster.wait(lambda: _answers(serves), 15.0, "the gateway has the route")
        yield serves
    finally:
        cluster.end()


def _answers(serves: Serving) -> bool:
    asked = {"model": NAME, "prompt": "One", "max_tokens": 1}
    headers = {"Authorization": f"Bearer {serves.key}"}
    url = f"{serves.cluster.gateway_url}/v1/completions"
    return httpx.post(url, json=asked, headers=headers, timeout=30).status_code == httpx.codes.OK


def user(content: str) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": content}]


async def test_models_are_listed(serving: Serving) -> None:
    async with serving.client() as client:
        assert [model.id async for model in client.models.list()] == [NAME]
        assert (await client.models.retrieve(NAME)).object == "model"


async def test_a_chat_is_answered_whole_and_streamed_alike(serving: Serving) -> None:
    async with serving.client() as client:
        whole = await client.chat.completions.create(
            model=NAME, messages=user("Count to ten."), max_tokens=12, temperature=0, seed=1
        )
        stream = await client.chat.completions.create(
            model=NAME,
            messages=user("Count to ten."),
            max_tokens=12,
            temperature=0,
            seed=1,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert whole.choices[0].message.content == text
    assert text
    assert whole.usage is not None
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )


async def test_text_is_completed_whole_and_streamed(serving: Serving) -> None:
    async with serving.client() as client:
        whole = await client.completions.create(
            model=NAME, prompt="One, two, three,", max_tokens=5, temperature=0
        )
        stream = await client.completions.create(
            model=NAME, prompt="One, two, three,", max_tokens=5, temperature=0, stream=True
        )
        streamed = "".join([chunk.choices[0].text async for chunk in stream])
    assert whole.choices[0].text == streamed
    assert streamed.strip()


async def test_a_wrong_key_and_an_unknown_model_are_the_clients_own_errors(
    serving: Serving,
) -> None:
    async with serving.client(key="llmgw_nobody_" + "x" * 40) as stranger:
        with pytest.raises(openai.AuthenticationError) as unknown:
            await stranger.models.list()
    assert unknown.value.code == "invalid_api_key"
    async with serving.client() as client:
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="gpt-9", messages=user("Hi"))
    assert missing.value.code == "model_not_found"


async def test_a_key_works_as_soon_as_it_is_shown_and_no_longer_once_it_is_removed(
    serving: Serving,
) -> None:
    admin = serving.cluster.client()
    for number in range(5):
        made = admin.post("/keys", {"name": f"fresh-{number}"})
        async with serving.client(key=made["key"]) as client:
            assert (await client.models.list()).data
        admin.delete(f"/keys/{made['id']}")
        async with serving.client(key=made["key"]) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()


async def test_a_client_that_closes_after_three_tokens_frees_the_slot(serving: Serving) -> None:
    async with serving.client() as client:
        stream = await client.chat.completions.create(
            model=NAME,
            messages=user("Tell a story."),
            max_tokens=4000,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        for _ in range(1 + 3):  # the role, then three tokens
            await anext(stream)
        assert await serving.busy() == 1
        await stream.close()
        await serving.until_busy(0, FREED_WITHIN)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside_a_running_stream"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", ["chat", "text"])
async def test_a_client_that_leaves_during_prefill_frees_the_slot(
    kind: Literal["chat", "text"], stream: bool, beside: bool, serving: Serving
) -> None:
    def ask(client: openai.AsyncOpenAI) -> Awaitable[Any]:
        # Not what an earlier request left in the slot: then there would be nothing to prefill.
        long = f"{time.monotonic()} {LONG}"
        if kind == "chat":
            return client.chat.completions.create(
                model=NAME, messages=user(long), max_tokens=100, stream=stream
            )
        return client.completions.create(model=NAME, prompt=long, max_tokens=100, stream=stream)

    others = 1 if beside else 0
    async with serving.client() as client, serving.client() as leaving:
        running = asyncio.ensure_future(_read(client)) if beside else None
        await serving.until_busy(others, 10.0)
        asking = asyncio.ensure_future(ask(leaving))
        await serving.until_busy(others + 1, 10.0)
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await serving.until_busy(others, FREED_WITHIN)
        if running is not None:
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await serving.until_busy(0, FREED_WITHIN)


async def test_an_engine_with_sixty_requests_in_flight_still_says_how_it_is(
    serving: Serving,
) -> None:
    async with serving.client() as client, httpx.AsyncClient(timeout=5.0) as http:
        reading = [asyncio.ensure_future(_read(client)) for _ in range(60)]
        await serving.until_busy(2, 20.0)
        headers = {"Authorization": f"Bearer {serving.engine_key}"}
        for path in ("/health", "/slots", "/metrics"):
            answer = await http.get(f"{serving.engine}{path}", headers=headers)
            assert answer.status_code == httpx.codes.OK
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await serving.until_busy(0, 3.0)


async def _read(client: openai.AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model=NAME, prompt="x", max_tokens=8000, stream=True, extra_body={"ignore_eos": True}
    )
    async with stream:
        async for _ in stream:
            pass


async def test_usage_is_what_the_client_was_told(serving: Serving) -> None:
    made = serving.cluster.client().post("/keys", {"name": "counted"})
    async with serving.client(key=made["key"]) as client:
        whole = await client.completions.create(model=NAME, prompt="One, two,", max_tokens=7)
        stream = await client.completions.create(
            model=NAME,
            prompt="One, two,",
            max_tokens=9,
            stream=True,
            stream_options={"include_usage": True},
        )
        told = [whole.usage, *[chunk.usage async for chunk in stream if chunk.usage]]
    fields = ("prompt_tokens", "completion_tokens")
    wanted = [sum(getattr(usage, field) for usage in told) for field in fields]

    def counted() -> list[dict[str, Any]] | None:
        rows = [row for row in serving.cluster.client().get("/usage") if row["key"] == made["id"]]
        # A request is counted when it begins, its tokens when it ends.
        return rows if [sum(row[field] for row in rows) for field in fields] == wanted else None

    rows = serving.cluster.wait(counted, 10.0, f"usage of {wanted}") or []
    assert [(row["requests"], row["estimated"]) for row in rows] == [(2, 0)]
