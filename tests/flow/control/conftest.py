"""A whole control plane on loopback, in this process, with a state directory of its own."""

import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles
from llmgw.control.config import ServerConfig
from llmgw.control.plane import World
from llmgw.control.server import Machine, Ready, Server

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
