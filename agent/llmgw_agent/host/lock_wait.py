"""Waiting for a lock that another process holds."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw_agent.host.lock import try_lock

_LOOK_EVERY = 0.5


@asynccontextmanager
async def waited_for(path: Path, clock: Clock, wait: Callable[[], None]) -> AsyncIterator[None]:
    """Hold the lock within the block; `wait` is called whenever it is found held."""
    held = try_lock(path)
    while held is None:
        wait()
        await clock.sleep(_LOOK_EVERY)
        held = try_lock(path)
    try:
        yield
    finally:
        held.release()
