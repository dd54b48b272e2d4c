"""Waiting for something no longer than a clock says: a virtual one as well as the machine's."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from llmgw.base.clock import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, wanted: Awaitable[T]) -> T:
    """Return what is awaited.

    Raises:
        TimeoutError: it was not there after that many seconds; it was cancelled.
    """
    task = asyncio.ensure_future(wanted)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"not within {seconds:g} s")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)
