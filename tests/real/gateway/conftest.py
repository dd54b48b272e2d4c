"""A real llama-server behind a worker of the gateway, both on the product's own event loop."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from llmgw.model.catalog import LLAMACPP
from llmgw.model.gateway import Route
from tests.fakes.gateway import GatewayHere, endpoint, table
from tests.fakes.rawclient import RawClient, get
from tests.real.conftest import Llama
from tests.waiting import wait_until

ENGINE_KEY = "an-engine-key-of-this-test"
READY_LIMIT = 120.0
CONTEXT = 32_768
"""Tokens of a slot; the tiny model has a token for each character."""


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class LlamaServer:
    """A running llama-server."""

    port: int
    process: asyncio.subprocess.Process
    log: Path

    async def get(self, path: bytes) -> Any:
        client = await RawClient.open(self.port)
        try:
            reply = await client.ask(get(path, key=ENGINE_KEY))
        finally:
            client.abort()
        return json.loads(reply.body) if reply.status == 200 else None

    async def busy(self) -> int:
        """Return how many slots work on a request."""
        slots = await self.get(b"/slots")
        return sum(slot["is_processing"] for slot in slots)

    async def until_busy(self, wanted: int, limit: float) -> float:
        """Wait until so many slots are busy; return the seconds that it took."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while await self.busy() != wanted:
            assert loop.time() - begin < limit, f"not {wanted} busy slots within {limit:g} s"
            await asyncio.sleep(0.01)
        return loop.time() - begin

    def cancelled(self) -> int:
        """Return how many requests it gave up, as its log says; asking it would disturb it.

        While it waits for a result it looks once a second whether its client is still there, and
        every result of any request, that of /slots too, begins the second anew.
        """
        return self.log.read_text(errors="replace").count("cancel task")

    async def until_ready(self, limit: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        while loop.time() < end:
            assert self.process.returncode is None, self.log.read_text()[-2000:]
            with suppress(OSError):
                if await self.get(b"/health") == {"status": "ok"}:
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not ready: {self.log.read_text()[-2000:]}")


@asynccontextmanager
async def llama_server(
    llama: Llama, directory: Path, *more: str, slot: int = CONTEXT
) -> AsyncIterator[LlamaServer]:
    """Run a llama-server with two slots, of a long context, which makes even a tiny model slow.

    Its batches are small: between two of them it hears that a request was cancelled.

    Args:
        llama: program and model.
        directory: for its log.
        more: further options.
        slot: tokens of a slot.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    log = directory / "llama.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(*llama.program.start, "-m", str(llama.model), "--host", "127.0.0.1"),
            *("--port", str(port), "-np", "2", "-c", str(2 * slot), "-t", "2"),
            *("-ngl", "0", "-b", "64", "-ub", "64", "--slots", "--threads-http", "64", *more),
            stdout=out,
            stderr=out,
            env={
                "PATH": os.environ["PATH"],
                "LD_LIBRARY_PATH": ":".join(map(str, llama.program.libraries)),
                "LLAMA_API_KEY": ENGINE_KEY,
            },
        )
    server = LlamaServer(port, process, log)
    try:
        await server.until_ready(READY_LIMIT)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        RawClient.abort_all()


@pytest.fixture
async def server(llama: Llama, tmp_path: Path) -> AsyncIterator[LlamaServer]:
    context = ("--override-kv", f"llama.context_length=int:{CONTEXT}")
    async with llama_server(llama, tmp_path, "--device", "none", *context) as running:
        yield running


@pytest.fixture
async def gateway(server: LlamaServer) -> AsyncIterator[GatewayHere]:
    place = endpoint(server.port, "m-0", key=ENGINE_KEY, engine=LLAMACPP)
    made = await GatewayHere().start(table(Route(model="m", endpoints=(place,), wanted=1)))
    await wait_until(lambda: made.reports)
    yield made
    await made.stop()
