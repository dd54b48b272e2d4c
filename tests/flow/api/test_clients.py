"""Both clients against the real API on a real socket."""

import asyncio
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import (
    Conflict,
    LlmgwError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.base.secrets import Secret
from llmgw.client.asyncclient import AsyncClient
from llmgw.client.contexts import Context
from llmgw.client.errors import Rejected, Unauthorized
from llmgw.client.interface import LIVE, RECONNECTING, WHATEVER, LogBatch, WatchBatch
from llmgw.client.oneshot import OneShot
from llmgw.control.api.app import build
from llmgw.control.api.serve import Running, serve
from llmgw.model.commands import LogLines
from tests.fakes.plane import FakePlane
from tests.waiting import wait_until

MODEL = {"name": "a/b:c", "profiles": [{"engine": "simulated"}]}


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(function, *args, **kwargs)


async def test_one_request_at_a_time(oneshot: OneShot) -> None:
    assert [node["id"] for node in await call(oneshot.get, "/nodes")] == ["atlas"]
    added = await call(oneshot.put, "/models/a/b:c", MODEL, version=0)
    assert added["version"] == 1
    with pytest.raises(Conflict):
        await call(oneshot.put, "/models/a/b:c", MODEL, version=0)
    assert (await call(oneshot.get, "/models/a/b:c"))["model"]["name"] == "a/b:c"
    assert await call(oneshot.delete, "/models/a/b:c") is None
    made = await call(oneshot.post, "/keys", {"name": "x"})
    assert made["key"].startswith("llmgw_")
    listed = await call(oneshot.get, "/list", {"topics": ("nodes", "keys")})
    assert set(listed["topics"]) == {"nodes", "keys"}
    assert await call(oneshot.get, "/healthz") == {"status": "ok"}


async def test_refusals_arrive_as_what_they_are(oneshot: OneShot) -> None:
    with pytest.raises(NotFound, match="no node 'nope'"):
        await call(oneshot.get, "/nodes/nope")
    with pytest.raises(Unreadable, match="gpu: no such field"):
        await call(oneshot.put, "/models/x", {"name": "x", "profiles": [{"gpu": 1}]})
    with pytest.raises(Usage, match="If-Match is missing"):
        await call(oneshot.put, "/models/x", MODEL)
    with pytest.raises(Rejected) as told:
        await call(oneshot.put, "/models/x", {"name": "x", "profiles": []}, version=WHATEVER)
    assert told.value.problems[0][0] == "profiles"


async def test_the_same_through_the_other_client(api: AsyncClient) -> None:
    assert [node["id"] for node in await api.get("/nodes")] == ["atlas"]
    assert (await api.put("/models/a/b:c", MODEL, version=0))["version"] == 1
    with pytest.raises(Conflict):
        await api.put("/models/a/b:c", MODEL, version=0)
    assert await api.delete("/models/a/b:c") is None
    with pytest.raises(NotFound, match="no node 'nope'"):
        await api.get("/nodes/nope")


@pytest.mark.parametrize("token", [None, "wrong"])
async def test_without_a_right_token_both_say_so(running: Running, token: str | None) -> None:
    context = Context(None, f"http://127.0.0.1:{running.port}", Secret(token) if token else None)
    with pytest.raises(Unauthorized):
        await call(OneShot(context).get, "/nodes")
    async with AsyncClient(context, clock=SystemClock(), rng=random.Random(1)) as api:
        with pytest.raises(Unauthorized):
            await api.get("/nodes")
        with pytest.raises(Unauthorized):
            async for _ in api.watch(["nodes"]):
                pass


async def test_a_role_that_does_not_suffice_is_refused(plane: FakePlane, running: Running) -> None:
    token = Secret(plane.tokens_by_role["read"])
    context = Context(None, f"http://127.0.0.1:{running.port}", token)
    with pytest.raises(Refused, match="has the role read, this needs operate"):
        await call(OneShot(context).delete, "/models/x")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def test_a_server_that_is_not_there_is_unreachable_with_what_to_do() -> None:
    context = Context(None, f"http://127.0.0.1:{free_port()}", None)
    with pytest.raises(Unreachable, match="nothing listens at") as told:
        await call(OneShot(context).get, "/nodes")
    assert told.value.hint == "is `llmgw server` running there?"
    unknown = Context(None, "http://no-such-host.invalid:1", None)
    with pytest.raises(Unreachable, match="no-such-host"):
        await call(OneShot(unknown, timeout=5).get, "/nodes")


class OddServer:
    """Answers every connection with the same bytes, or not at all."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "OddServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)
        for one in self._held:
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._held.append(connection)
            if self._answer is not None:
                connection.recv(65536)
                connection.sendall(self._answer)
                connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<x>", Unreadable, "not JSON"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://e/\r\nContent-Length: 0\r\n\r\n",
            LlmgwError,
            "302",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Unreachable, "can't be reached"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nno", Unreachable, "answered 502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[", Unreachable, "can't be reached"),
        (b"", Unreachable, "can't be reached"),
        (None, TimedOut, "did not answer within 0.3 s"),
    ],
    ids=range(7),
)
async def test_what_is_not_llmgw_is_told_in_words(
    answer: bytes | None, kind: type[LlmgwError], words: str
) -> None:
    with OddServer(answer) as odd:
        context = Context(None, f"http://127.0.0.1:{odd.port}", Secret("t"))
        with pytest.raises(kind, match=words):
            await call(OneShot(context, timeout=0.3).get, "/nodes")


class Viewer:
    """Reads a watch in a task."""

    def __init__(self, api: AsyncClient) -> None:
        self.batches: list[WatchBatch] = []
        self.task = asyncio.ensure_future(self._read(api))

    async def _read(self, api: AsyncClient) -> None:
        async with aclosing(api.watch(["nodes", "models"])) as batches:
            async for batch in batches:
                self.batches.append(batch)

    def saw(self, id_: str, *, gone: bool = False) -> bool:
        return any(
            change.id == id_ and (change.record is None) == gone
            for batch in self.batches
            for change in batch.changes
        )

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_a_watch_shows_what_changes_and_ends_with_its_caller(
    plane: FakePlane, api: AsyncClient, oneshot: OneShot
) -> None:
    viewer = Viewer(api)
    await wait_until(lambda: viewer.batches)
    assert viewer.batches[0].listing
    assert viewer.saw("atlas")
    await call(oneshot.put, "/models/a/b:c", MODEL, version=WHATEVER)
    await wait_until(lambda: viewer.saw("a/b:c"))
    await call(oneshot.delete, "/models/a/b:c")
    await wait_until(lambda: viewer.saw("a/b:c", gone=True))
    assert plane.feed.followers == 1
    await viewer.end()
    await wait_until(lambda: plane.feed.followers == 0, what="the stream is closed")


async def test_a_watch_goes_on_with_the_server_that_comes_back(plane: FakePlane) -> None:
    running = await serve(build(plane), "127.0.0.1", 0)
    port = running.port
    context = Context(None, f"http://127.0.0.1:{port}", Secret(plane.tokens_by_role["read"]))
    async with AsyncClient(context, clock=SystemClock(), rng=random.Random(1)) as api:
        viewer = Viewer(api)
        await wait_until(lambda: viewer.batches)
        await running.stop()
        await wait_until(lambda: viewer.batches[-1].connection.state == RECONNECTING)
        plane.fake_fleet.put("nodes", "borea", plane.fake_fleet.nodes()[0])
        again = await serve(build(plane), "127.0.0.1", port)
        try:
            await wait_until(lambda: viewer.saw("borea"))
            assert viewer.batches[-1].connection.state == LIVE
            assert sum(batch.listing for batch in viewer.batches) == 1
        finally:
            await viewer.end()
            await again.stop()


async def test_logs_are_followed(plane: FakePlane, api: AsyncClient) -> None:
    plane.fake_agents.later = [
        LogLines(request="r", lines=("more",), dropped=2),
        Unreachable("atlas has no stream"),
    ]
    lines = api.follow_logs("atlas", None, 1)
    assert await anext(lines) == LogBatch(("registered with 127.0.0.1:7442",))
    assert await anext(lines) == LogBatch(("more",), 2)
    with pytest.raises(Unreachable, match="atlas has no stream"):
        await anext(lines)
    with pytest.raises(NotFound):
        await anext(api.follow_logs("nope"))


def test_what_one_command_needs_loads_nothing_dear() -> None:
    dear = "{'httpx', 'yaml', 'msgspec', 'asyncio', 'rich', 'structlog', 'llmgw.model'}"
    code = (
        "import sys, llmgw.client.contexts, llmgw.client.oneshot;"
        f"print(sorted(set(sys.modules) & {dear}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
