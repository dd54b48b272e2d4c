"""Time as something that is handed in, so that flows can run on a virtual clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Source of time for a whole process."""

    def now(self) -> float:
        """Return wall-clock time in seconds since the epoch; it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; the zero point means nothing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many monotonic seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return wall-clock time in seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)
