"""Waiting for something, but no longer than a time, on the clock that was handed in."""

import asyncio
from typing import Any

from llmgw.base.clock import Clock


async def done_within(clock: Clock, future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait until the future is done or that many seconds passed; say whether it is done.

    The future goes on either way.
    """
    if future.done():
        return True
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    waiting: set[asyncio.Future[Any]] = {future, sleeping}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
    return future.done()
