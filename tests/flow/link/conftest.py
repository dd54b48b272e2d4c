"""Fixtures of the link's tests: a cluster on loopback, on each of the two event loops."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
import uvloop

from tests.flow.link.place import Place


def pytest_asyncio_loop_factories(config, item):
    """Run every test on both loops: services run on uvloop, tools on asyncio's own."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.start()
    yield made
    await made.end()
