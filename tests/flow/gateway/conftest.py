"""Gateways, in this process or as processes, with engines and a control plane on loopback.

Tests run on the product's own event loop. A module that wants a worker in its own process instead
of a `gateway` of processes has a fixture of that name.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from llmgw.gateway.table import Table
from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import Behaviour, FakeEngine
from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient
from tests.flow.gateway.process import GatewayProcess

StartEngine = Callable[..., Awaitable[FakeEngine]]
StartGateway = Callable[..., Awaitable[GatewayHere]]
Connect = Callable[[GatewayHere], Awaitable[RawClient]]


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_engine() -> AsyncIterator[StartEngine]:
    engines: list[FakeEngine] = []

    async def start(behave: Behaviour | None = None, port: int = 0) -> FakeEngine:
        engines.append(FakeEngine(behave))
        return await engines[-1].start(port)

    yield start
    for engine in engines:
        await engine.stop()


@pytest.fixture
async def start_gateway() -> AsyncIterator[StartGateway]:
    gateways: list[GatewayHere] = []

    async def start(state: Table, **more: Any) -> GatewayHere:
        gateways.append(GatewayHere(**more))
        return await gateways[-1].start(state)

    yield start
    for gateway in gateways:
        await gateway.stop()
    await asyncio.sleep(0)


@pytest.fixture(autouse=True)
async def clients_end() -> AsyncIterator[None]:
    yield
    RawClient.abort_all()
    await asyncio.sleep(0)


@pytest.fixture
def connect() -> Connect:
    async def open_one(gateway: GatewayHere) -> RawClient:
        return await RawClient.open(gateway.port)

    return open_one


@pytest.fixture
async def engine(start_engine: StartEngine) -> FakeEngine:
    return await start_engine()


@pytest.fixture
async def plane(tmp_path: Path, engine: FakeEngine) -> AsyncIterator[FakeControlPlane]:
    made = FakeControlPlane(tmp_path / "control")
    await made.start()
    made.table = table(route([engine.port]))
    yield made
    await made.stop()


@pytest.fixture
async def gateway(tmp_path: Path, plane: FakeControlPlane) -> AsyncIterator[GatewayProcess]:
    made = GatewayProcess(tmp_path / "gateway", plane)
    yield made
    await made.end()
