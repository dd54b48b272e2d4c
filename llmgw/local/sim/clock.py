"""One machine's time: monotonic seconds are the loop's, its wall clock may jump."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from llmgw.local.sim.loop import SimLoop

EPOCH: Final = 1_800_000_000.0
"""Wall-clock seconds at which every simulation begins."""


class SimClock:
    """The clock of one machine.

    Args:
        loop: whose virtual time it shows.
    """

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._offset = EPOCH - loop.time()

    def now(self) -> float:
        """Return wall-clock time in seconds since the epoch."""
        return self._loop.time() + self._offset

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self._loop.time()

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Return after that many virtual seconds."""
        return asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._offset += seconds
