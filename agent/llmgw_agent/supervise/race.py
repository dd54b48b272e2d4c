"""Work against what may cut it short: a wish to stop, and a limit that nothing resets."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from llmgw.base.clock import Clock

T = TypeVar("T")


class StopWanted(Exception):
    """The shard is not wanted any more."""


async def race(
    work: Coroutine[Any, Any, T],
    *,
    stop: asyncio.Event,
    clock: Clock,
    until: float | None = None,
    late: Callable[[], Exception] = TimeoutError,
) -> T:
    """Return what `work` returns, unless it is cut short; then it is cancelled first.

    Args:
        work: what is done.
        stop: cuts it short with `StopWanted`.
        clock: the time that `until` is in.
        until: monotonic seconds at which it is cut short; None: never.
        late: makes the error that is raised then.
    """
    doing = asyncio.ensure_future(work)
    others: list[asyncio.Future[Any]] = [asyncio.ensure_future(stop.wait())]
    if until is not None:
        others.append(asyncio.ensure_future(clock.sleep(max(0.0, until - clock.monotonic()))))
    try:
        await asyncio.wait({doing, *others}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        if others[0].done():
            raise StopWanted
        raise late()
    finally:
        for task in (doing, *others):
            task.cancel()
        await asyncio.gather(doing, *others, return_exceptions=True)
