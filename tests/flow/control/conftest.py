"""A whole control plane on loopback with a state directory of its own; two over one store."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles
from llmgw.control.config import ServerConfig
from llmgw.control.plane import Plane
from llmgw.control.server import Machine, Ready, Server
from llmgw.control.world import World
from llmgw.store.memory import Memory
from tests.fakes.clock import FakeClock
from tests.fakes.planes import make_plane, running
from tests.flow.control.heads import Head

Running = AbstractAsyncContextManager[tuple[Server, Ready]]
Start = Callable[..., Running]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    world = World(clock=SystemClock(), rng=random.Random(), entropy=secrets.token_bytes)
    return Machine(
        world=world,
        files=SystemFiles(),
        environ={"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")},
        root=False,
        hostname="cp-1",
    )


@pytest.fixture
def config(tmp_path: Path) -> ServerConfig:
    return ServerConfig(state_dir=str(tmp_path / "state"), admin="127.0.0.1:0", link="127.0.0.1:0")


@pytest.fixture
def serving(machine: Machine, config: ServerConfig) -> Start:
    @asynccontextmanager
    async def start(with_config: ServerConfig = config) -> AsyncIterator[tuple[Server, Ready]]:
        server = Server(with_config, machine)
        ready = await server.start()
        try:
            yield server, ready
        finally:
            await server.stop("the test is over")

    return start


@pytest.fixture
def memory(clock: FakeClock) -> Memory:
    return Memory(clock)


@pytest.fixture
async def heads(memory: Memory, clock: FakeClock) -> AsyncIterator[tuple[Head, Head]]:
    async with AsyncExitStack() as stack:
        first, second = Head(memory, clock, 1), Head(memory, clock, 2)
        for head in (first, second):
            stack.push_async_callback(head.kill)
            await head.start()
        yield first, second


@pytest.fixture
def plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make plans where they are asked for: a thread would end in its own time."""

    async def here(make: Callable[..., object], *what: object) -> object:
        return make(*what)

    monkeypatch.setattr(asyncio, "to_thread", here)


@pytest.fixture
async def plane(clock: FakeClock) -> AsyncIterator[Plane]:
    async with running(make_plane(clock)) as made:
        yield made
