"""Waiting for a state, never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def wait_until(condition: Callable[[], T], timeout: float = 10.0, *, what: str = "") -> T:
    """Return the first true value of `condition`; fail with `what` after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}")
        await asyncio.sleep(0.01)


async def ask_until(
    asked: Callable[[], Awaitable[T]], timeout: float = 20.0, *, what: str = ""
) -> T:
    """Like `wait_until`, where looking is asking: the first true answer."""
    end = time.monotonic() + timeout
    while not (value := await asked()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what or asked}")
        await asyncio.sleep(0.02)
    return value


def wait_for(condition: Callable[[], T], timeout: float = 10.0, *, what: str = "") -> T:
    """Like `wait_until`, for tests without a loop."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}")
        time.sleep(0.02)  # noqa: TID251
