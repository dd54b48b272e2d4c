"""The admin API on a real socket, over a recorded fleet."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from llmgw.base.clock import SystemClock
from llmgw.base.secrets import Secret
from llmgw.client.asyncclient import AsyncClient
from llmgw.client.contexts import Context
from llmgw.client.oneshot import OneShot
from llmgw.control.api.app import build
from llmgw.control.api.serve import Running, serve
from tests.fakes.fleets import cpu_serving
from tests.fakes.plane import FakePlane


@pytest.fixture
async def plane() -> FakePlane:
    return await FakePlane(cpu_serving(), SystemClock()).prepare()


@pytest.fixture
async def running(plane: FakePlane) -> AsyncIterator[Running]:
    running = await serve(build(plane), "127.0.0.1", 0)
    yield running
    await running.stop()


@pytest.fixture
def context(plane: FakePlane, running: Running) -> Context:
    token = Secret(plane.tokens_by_role["admin"])
    return Context("local", f"http://127.0.0.1:{running.port}", token)


@pytest.fixture
def oneshot(context: Context) -> OneShot:
    return OneShot(context, timeout=10)


@pytest.fixture
async def api(context: Context) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(context, clock=SystemClock(), rng=random.Random(1)) as client:
        yield client


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests on the loop that the control plane runs on."""
    return {"uvloop": uvloop.new_event_loop}
