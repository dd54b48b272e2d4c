"""Time that a test moves by hand."""

import asyncio
import heapq
import itertools


class FakeClock:
    """A clock that stands still until `advance` is called.

    Sleepers wake in the order of their times; between two of them everything that is ready runs.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._start = now
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as an operator or NTP does."""
        self._start += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let that many seconds pass."""
        until = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, future = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, at)
            if not future.done():
                future.set_result(None)
            await settle()
        self._elapsed = until
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let everything that is ready run."""
    loop = asyncio.get_running_loop()
    for _ in range(rounds):
        await asyncio.sleep(0)
        if _rests(loop):
            return


def _rests(loop: asyncio.AbstractEventLoop) -> bool:
    """Say whether a loop has nothing left to run; of one with sockets that can't be said.

    It halves what the unit tests cost: most of their rounds would find nothing to do.
    """
    ready, selector = getattr(loop, "_ready", None), getattr(loop, "_selector", None)
    return not ready and selector is not None and len(selector.get_map()) <= 1
