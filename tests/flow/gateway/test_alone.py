"""A gateway that is told its endpoints and keys by a file: no control plane, no store, no agent."""

import asyncio
import hashlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles
from llmgw.gateway.alone_usage import kept_rows
from llmgw.gateway.health_checks import FAILURES, HealthChecks
from llmgw.model.gateway import Route
from llmgw.model.published import static_endpoint
from llmgw.model.publishing import StaticEndpoint
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import Call, FakeEngine, answer
from tests.fakes.gateway import KEY
from tests.fakes.gateway import route as usual
from tests.fakes.rawclient import chat, get, post
from tests.flow.gateway.conftest import StartEngine
from tests.flow.gateway.process import GatewayProcess, ask
from tests.waiting import ask_until, wait_until

UNKNOWN = "llmgw_k9_" + "v" * 43
PLAIN = post(chat(), b"Connection: close")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def key(text: str, **more: object) -> dict[str, object]:
    return {"id": text.split("_")[1], "sha256": hashlib.sha256(text.encode()).hexdigest(), **more}


class Alone(GatewayProcess):
    """A gateway process with a file of endpoints."""

    def __init__(self, directory: Path) -> None:
        nobody = cast("FakeControlPlane", SimpleNamespace(address="127.0.0.1:1"))
        super().__init__(directory, nobody, joined=False)
        directory.mkdir()
        del self.config["control_planes"]
        self.metrics = free_port()
        self.file = directory / "endpoints.yaml"
        self.config |= {"endpoints": str(self.file), "metrics": f"127.0.0.1:{self.metrics}"}

    def write(self, **tree: Any) -> None:
        self.file.write_text(yaml.safe_dump({"keys": [key(KEY)], **tree}))
        self.file.chmod(0o600)

    def used(self) -> dict[str, int]:
        """Return how many requests its files say that each key sent."""
        rows = kept_rows(self.state, SystemFiles(), since=0.0, until=1e12)
        keys = {row.key for row in rows}
        return {one: sum(row.requests for row in rows if row.key == one) for one in keys}

    async def page_with(self, text: str) -> str:
        """Wait until the page has a text; workers tell what they counted now and then."""

        async def asked() -> str | None:
            page = await self.page()
            return page if text in page else None

        return await ask_until(asked, what=text) or ""

    async def page(self, path: bytes = b"/metrics") -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.metrics)
        writer.write(get(path, key=None))
        text = await reader.read()
        writer.close()
        return text.decode()


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    made = Alone(tmp_path / "alone")
    yield made
    await made.end()


async def models_too(call: Call) -> None:
    """Answer a health check as engines do."""
    if call.method == "GET":
        call.reply({"object": "list", "data": []}, close=True)
    else:
        await answer(call)


def url(engine: FakeEngine) -> str:
    return f"http://127.0.0.1:{engine.port}"


async def test_a_file_is_all_that_a_gateway_needs(alone: Alone, start_engine: StartEngine):
    engine = await start_engine(models_too)
    alone.write(models={"m": [{"url": url(engine), "model": "there"}]})
    await alone.start()
    assert (await ask(alone, PLAIN)).status == 200
    asked = next(call for call in engine.calls if call.method == "POST")
    assert asked.json["model"] == "there"
    assert "authorization" not in asked.headers
    assert (await ask(alone, post(chat(), b"Connection: close", key=UNKNOWN))).status == 401
    assert (await ask(alone, post(chat("n"), b"Connection: close"))).status == 404
    page = await alone.page_with('llmgw_requests_total{model="m"')
    assert f'llmgw_endpoint_up{{model="m",endpoint="static/m/127.0.0.1:{engine.port}"}} 1' in page
    assert (await alone.page(b"/nothing")).startswith("HTTP/1.1 404")
    queued = [line for line in page.splitlines() if line.startswith("llmgw_requests_queued{")]
    assert queued
    assert all('model="m",worker=' in line and line.endswith(" 0") for line in queued)
    assert "llmgw_keys_over_quota 0" in page
    assert await alone.health() == (200, "none")


async def test_what_was_used_is_kept_by_the_hour_over_a_kill_that_of_keys_that_left_too(
    alone: Alone, start_engine: StartEngine
):
    engine = await start_engine(models_too)
    models = {"m": [{"url": url(engine)}]}
    alone.write(models=models, keys=[key(KEY), key(UNKNOWN)])
    await alone.start()
    for text in (KEY, UNKNOWN, KEY):
        assert (await ask(alone, post(chat(), b"Connection: close", key=text))).status == 200
    await wait_until(lambda: alone.used() == {"k1": 2, "k9": 1}, 10.0)
    alone.write(models=models)
    await until(alone, post(chat(), b"Connection: close", key=UNKNOWN), 401)
    alone.parent.kill()
    await alone.parent.wait()
    await alone.start()
    assert (await ask(alone, PLAIN)).status == 200
    await wait_until(lambda: alone.used()["k1"] == 3, 10.0)
    assert alone.used()["k9"] >= 1


async def test_a_file_that_changed_is_read_again_and_a_faulty_one_changes_nothing(
    alone: Alone, start_engine: StartEngine
):
    engine = await start_engine(models_too)
    alone.write(models={"m": [{"url": url(engine)}]})
    await alone.start()
    alone.write(models={"m": [{"url": "nothing"}]})
    os.kill(alone.parent.pid, signal.SIGHUP)
    await wait_until(lambda: "can't be read: the last ones stay" in alone.log.read_text(), 20.0)
    assert (await ask(alone, PLAIN)).status == 200
    alone.write(models={"n": [{"url": url(engine)}]}, keys=[key(KEY), key(UNKNOWN)])
    await until(alone, post(chat("n"), b"Connection: close", key=UNKNOWN), 200)
    assert (await ask(alone, PLAIN)).status == 404


async def until(gateway: GatewayProcess, request: bytes, status: int) -> None:
    async def asked() -> bool:
        return {(await ask(gateway, request)).status for _ in range(6)} == {status}

    await ask_until(asked, what=f"{status} everywhere")


async def test_a_file_that_cannot_be_read_at_the_start_is_said_in_a_line(alone: Alone):
    alone.write(models={"m": [{"url": "nothing"}]})
    process = await alone.spawn()
    assert await process.wait() == 1
    said = alone.log.read_text()
    assert "models.m[0].url" in said
    assert "Traceback" not in said


# Health checks.


class Checked:
    """Health checks of one model's endpoints, run by hand."""

    def __init__(self, *engines: FakeEngine) -> None:
        endpoints = [static_endpoint("m", StaticEndpoint(url=url(one))) for one in engines]
        self.route = Route(model="m", endpoints=tuple(endpoints))
        self.changed: list[set[str]] = []
        self.checks = HealthChecks(lambda: (self.route,), self.changed.append, SystemClock())

    @property
    def up(self) -> list[int]:
        (route,) = self.checks.answering([self.route])
        return [one.port for one in route.endpoints]


async def test_what_a_key_used_of_a_day_outlasts_a_restart(alone: Alone, start_engine: StartEngine):
    engine = await start_engine(models_too)
    limited = key(KEY, tokens_per_day=1)
    alone.write(models={"m": [{"url": url(engine)}]}, keys=[limited])
    await alone.start()
    assert (await ask(alone, PLAIN)).status == 200
    await until(alone, PLAIN, 429)
    alone.parent.terminate()
    assert await alone.parent.wait() == 0
    await alone.start()
    assert (await ask(alone, PLAIN)).status == 429


async def test_an_endpoint_that_fails_its_checks_is_left_out_until_it_answers(
    start_engine: StartEngine,
):
    good, bad = await start_engine(models_too), await start_engine(models_too)
    seen = Checked(good, bad)
    await seen.checks.run_once()
    assert (seen.up, seen.changed) == ([good.port, bad.port], [])

    async def broken(call: Call) -> None:
        call.reply({}, status=500, close=True)

    bad.behave = broken
    for _ in range(FAILURES):
        assert bad.port in seen.up
        await seen.checks.run_once()
    assert (seen.up, seen.changed) == ([good.port], [{"m"}])
    bad.behave = models_too
    assert await seen.checks.run_once() == "2 of 2 static endpoints answer"
    assert (seen.up, seen.changed) == ([good.port, bad.port], [{"m"}, {"m"}])


async def test_where_none_answers_the_route_says_why(start_engine: StartEngine):
    engine = await start_engine(models_too)
    seen = Checked(engine)
    await engine.stop()
    for _ in range(FAILURES):
        await seen.checks.run_once()
    (route,) = seen.checks.answering([seen.route])
    assert route.endpoints == ()
    assert "does not answer: no answer" in (route.reason or "")


async def test_replicas_are_not_asked(start_engine: StartEngine):
    engine = await start_engine(models_too)
    seen = Checked()
    seen.route = usual([engine.port])
    await seen.checks.run_once()
    assert not engine.calls
