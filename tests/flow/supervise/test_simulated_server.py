"""The simulated engine's HTTP: llama-server's paths and shapes, on loopback in this process."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from llmgw_agent.engines.simulated_server.answers import Answers
from llmgw_agent.engines.simulated_server.arguments import parse_arguments
from llmgw_agent.engines.simulated_server.engine import Engine
from llmgw_agent.engines.simulated_server.http import Connection
from tests.waiting import wait_until

FIXTURES = Path(__file__).parents[2] / "fixtures" / "llama-server-http"
KEY = "a-key"


class Served:
    def __init__(self, engine: Engine, client: httpx.AsyncClient, port: int) -> None:
        self.engine = engine
        self.client = client
        self.port = port
        self.crashed = 0

    async def complete(self, **body: object) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"prompt": "Hello", **body})

    async def events(self, path: str, **body: object) -> list[Any]:
        async with self.client.stream("POST", path, json={"stream": True, **body}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = [line async for line in answer.aiter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line[6:]) for line in lines[:-1]]


@asynccontextmanager
async def served(*arguments: str, loaded: bool = True, key: str = KEY) -> AsyncIterator[Served]:
    needed = ["--host", "127.0.0.1", "--port", "0", "--model", "m"]
    read = parse_arguments([*needed, "--tokens-per-second", "2000", *arguments])
    crashes: list[int] = []
    engine = Engine(read, crash=lambda: crashes.append(1))
    engine.loaded = loaded
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(Answers(engine, KEY)), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        headers=headers,
        trust_env=False,
        timeout=30,
        limits=limits,
    ) as client:
        one = Served(engine, client, port)
        yield one
        one.crashed = len(crashes)
    server.close()
    await server.wait_closed()


def keys(value: Any) -> Any:
    """Return the names in a record, without its values."""
    if isinstance(value, dict):
        return {name: keys(part) for name, part in value.items()}
    if isinstance(value, list):
        return [keys(part) for part in value[:1]]
    return None


def recorded_events() -> list[dict[str, Any]]:
    lines = (FIXTURES / "chat-stream.txt").read_text().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


async def test_a_streamed_chat_has_the_shape_of_llama_servers():
    async with served() as one:
        events = await one.events(
            "/v1/chat/completions",
            messages=[{"role": "user", "content": "Hello"}],
            max_tokens=4,
            stream_options={"include_usage": True},
        )
    recorded = recorded_events()
    assert len(events) == len(recorded) == 7
    for ours, theirs in zip(events, recorded, strict=True):
        known = {name: part for name, part in theirs.items() if name != "timings"}
        assert keys(ours) == keys(known)
    assert events[-1]["usage"]["completion_tokens"] == 4
    assert events[-2]["choices"][0]["finish_reason"] == "length"


async def test_usage_comes_only_when_it_is_asked_for():
    async with served() as one:
        events = await one.events("/v1/completions", prompt="x", max_tokens=9)
    assert not any("usage" in event for event in events)
    text = "".join(e["choices"][0]["text"] for e in events)
    assert text == " simulated words that no model has computed, simulated"


async def test_a_completion_has_the_shape_of_llama_servers():
    async with served() as one:
        answer = (await one.complete(max_tokens=5)).json()
    recorded = json.loads((FIXTURES / "completion.json").read_text())
    recorded.pop("timings")
    assert keys(answer) == keys(recorded)
    assert answer["usage"]["completion_tokens"] == 5


async def test_the_word_simulated_is_in_everything_that_names_it():
    async with served() as one:
        answer = (await one.complete(max_tokens=2)).json()
        models = (await one.client.get("/v1/models")).json()
    assert "simulated" in answer["model"]
    assert answer["system_fingerprint"] == "simulated"
    assert "simulated" in answer["choices"][0]["text"]
    assert "simulated" in answer["id"]
    assert models["data"][0]["owned_by"] == "simulated"
    assert "simulated" in models["data"][0]["id"]


async def test_a_reply_that_ends_by_itself_says_stop():
    async with served("--reply-tokens", "6") as one:
        whole = (await one.complete()).json()
        short = (await one.complete(max_tokens=2)).json()
        on = (await one.complete(max_tokens=20, ignore_eos=True)).json()
    assert [a["choices"][0]["finish_reason"] for a in (whole, short, on)] == [
        "stop",
        "length",
        "length",
    ]
    assert [a["usage"]["completion_tokens"] for a in (whole, short, on)] == [6, 2, 20]


@pytest.mark.parametrize("path", ["/metrics", "/slots", "/props", "/nope"])
async def test_without_the_key_only_health_and_models_answer(path: str):
    async with served(key="wrong") as one:
        assert (await one.client.get("/health")).json() == {"status": "ok"}
        assert (await one.client.get("/v1/models")).status_code == 200
        answer = await one.client.get(path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
        assert (await one.complete()).status_code == 401


async def test_while_it_loads_it_says_so_as_llama_server_does():
    async with served(loaded=False) as one:
        answer = await one.client.get("/health")
        assert answer.status_code == 503
        assert answer.json() == json.loads((FIXTURES / "health-loading.json").read_text())
        assert (await one.complete()).status_code == 503


async def test_its_metrics_have_llama_servers_names():
    async with served() as one:
        await one.complete(max_tokens=7)
        ours = (await one.client.get("/metrics")).text
    recorded = (FIXTURES / "metrics-idle.prom").read_text()

    def names(text: str) -> set[str]:
        return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}

    assert names(ours) <= names(recorded)
    assert "llamacpp:tokens_predicted_total 7" in ours
    assert "llamacpp:prompt_tokens_total 1" in ours
    assert "llamacpp:requests_processing 0" in ours


async def test_pieces_are_counted_as_they_are_tokenized():
    async with served() as one:
        answer = await one.client.post(
            "/tokenize", json={"content": "Hello world", "with_pieces": True}
        )
        tokens = answer.json()["tokens"]
        assert keys(tokens) == keys(json.loads((FIXTURES / "tokenize.json").read_text())["tokens"])
        assert "".join(token["piece"] for token in tokens) == "Hello world"
        assert (await one.complete(prompt="Hello world")).json()["usage"]["prompt_tokens"] == 2


async def test_a_client_that_goes_away_frees_its_slot():
    async with served("--tokens-per-second", "5") as one:
        body = {"prompt": "x", "max_tokens": 1000, "stream": True}
        async with one.client.stream("POST", "/v1/completions", json=body) as answer:
            async for _ in answer.aiter_lines():
                break
            slots = (await one.client.get("/slots")).json()
            assert sum(slot["is_processing"] for slot in slots) == 1
        await wait_until(lambda: one.engine.running == 0, 1.0)


async def test_a_client_that_goes_away_during_the_prompt_frees_its_slot():
    async with served("--prompt-tokens-per-second", "0.1") as one:
        _, writer = await asyncio.open_connection("127.0.0.1", one.port)
        body = json.dumps({"prompt": "a b c d e", "stream": True}).encode()
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-key\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        await wait_until(lambda: one.engine.running == 1)
        writer.close()
        await writer.wait_closed()
        await wait_until(lambda: one.engine.running == 0, 1.0)
        assert one.engine.predicted == 0


async def test_requests_beyond_the_slots_wait_for_one():
    async with served("--parallel", "2", "--tokens-per-second", "50") as one:
        waiting = [asyncio.ensure_future(one.complete(max_tokens=5)) for _ in range(5)]
        await wait_until(lambda: one.engine.waiting == 3)
        assert one.engine.running == 2
        text = (await one.client.get("/metrics")).text
        assert "llamacpp:requests_deferred 3" in text
        answers = await asyncio.gather(*waiting)
        assert [a.status_code for a in answers] == [200] * 5


async def test_a_client_that_leaves_the_queue_takes_no_slot():
    async with served("--parallel", "1", "--tokens-per-second", "20") as one:
        first = asyncio.ensure_future(one.complete(max_tokens=20))
        await wait_until(lambda: one.engine.running == 1)
        second = asyncio.ensure_future(one.complete(max_tokens=20))
        await wait_until(lambda: one.engine.waiting == 1)
        second.cancel()
        await wait_until(lambda: one.engine.waiting == 0)
        assert (await first).status_code == 200
        assert (await one.complete(max_tokens=1)).status_code == 200


async def test_hundreds_of_streams_run_at_once():
    async with served("--parallel", "300", "--tokens-per-second", "20") as one:
        replies = await asyncio.gather(
            *(one.events("/v1/completions", prompt="x", max_tokens=10) for _ in range(300))
        )
    assert {len(events) for events in replies} == {11}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": 1}, 400, "prompt is not a text"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
        ({"max_tokens": True}, 400, "max_tokens"),
        ({"max_tokens": 10**30}, 400, "max_tokens"),
        ({"prompt": "word " * 9000}, 400, "exceeds the available context size (8192 tokens)"),
    ],
)
async def test_a_wrong_request_is_told_in_the_engines_shape(
    body: dict[str, object], status: int, words: str
):
    async with served() as one:
        answer = await one.complete(**body)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]
        assert answer.json()["error"]["code"] == status


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"messages": []}', b'{"messages": [1]}', b"[" * 100_000]
)
async def test_no_body_breaks_it(body: bytes):
    async with served() as one:
        answer = await one.client.post("/v1/chat/completions", content=body)
        assert answer.status_code == 400
        assert (await one.complete(max_tokens=1)).status_code == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"X" * 70_000, 431),
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_closed(
    request_: bytes, status: int
):
    async with served() as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(request_)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        writer.close()
        await writer.wait_closed()


async def test_a_connection_is_used_again_and_requests_may_follow_at_once():
    async with served() as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        seen = b""
        while seen.count(b'{"status": "ok"}') < 3:
            seen += await reader.read(1000)
        writer.close()
        await writer.wait_closed()


async def test_a_strict_engine_answers_to_its_own_name_alone():
    async with served("--strict-model") as one:
        assert (await one.complete(model="m")).status_code == 404
        assert (await one.complete(model="simulated/m", max_tokens=1)).status_code == 200


async def test_a_refusing_engine_refuses_and_stays_healthy():
    async with served("--fault", "refuse") as one:
        assert (await one.complete()).status_code == 503
        assert (await one.client.get("/health")).status_code == 200


async def test_a_hanging_engine_holds_its_slot_and_stays_healthy():
    async with served("--fault", "hang-after=2") as one:
        task = asyncio.ensure_future(one.complete())
        await wait_until(lambda: one.engine.predicted == 2)
        assert (await one.client.get("/health")).status_code == 200
        assert one.engine.running == 1
        task.cancel()
        await wait_until(lambda: one.engine.running == 0)


async def test_a_cut_reply_ends_without_its_end():
    async with served("--fault", "cut-after=2") as one:
        with pytest.raises(httpx.RemoteProtocolError):
            await one.events("/v1/completions", prompt="x")
        await wait_until(lambda: one.engine.running == 0)


async def test_a_crash_comes_after_so_many_tokens_of_all_requests():
    async with served("--fault", "crash-after=7") as one:
        await one.complete(max_tokens=4)
        await one.complete(max_tokens=4)
    assert one.crashed == 2


async def test_a_client_that_does_not_read_holds_its_own_tokens_back():
    many = 500_000
    async with served("--tokens-per-second", "1000000", "--context", "1000000") as one:
        body = b'{"prompt": "x", "max_tokens": %d, "ignore_eos": true, "stream": true}' % many
        with socket.create_connection(("127.0.0.1", one.port)) as client:
            client.sendall(
                b"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer a-key\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            held = 0
            while held == 0 or held != one.engine.predicted:
                held = one.engine.predicted
                for _ in range(20):
                    await one.client.get("/health")
            assert held < many
            assert one.engine.running == 1
        await wait_until(lambda: one.engine.running == 0)
