"""Listening sockets, each with the two worker places that take turns at it.

A worker is restarted by starting one at the other place of its socket; only when that one listens
the old one stops to accept, and finishes what it serves. Two places, because each has a row of the
shared counts and totals of its own: both workers count until the old one is gone.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Final

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.gateway.places import Place

log = get(__name__)

LISTENS_WITHIN: Final = 30.0
"""Seconds that a new worker has; then the old one stays."""
FINISHES_WITHIN: Final = 3600.0
"""Seconds that the old one has for the replies and connections that it has."""
LOOK: Final = 0.05


class Slot:
    """One listening socket.

    Args:
        listener: the socket; closed by `drain` alone.
        places: those that take turns; the first begins.
        clock: paces looks at a new worker.
    """

    def __init__(self, listener: socket.socket, places: Sequence[Place], clock: Clock) -> None:
        self._listener = listener
        self._places = places
        self._serving = places[0]
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """Keep a worker running until drained."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._serving.run())
            await self._closing.wait()

    async def restart(self) -> str:
        """Replace the worker by a new one; return what was done, in words."""
        spare = next((one for one in self._places if not one.active), None)
        if spare is None or self._group is None or self._closing.is_set():
            return "the worker before it still finishes its replies"
        old = self._serving
        spare.renew()
        self._group.create_task(spare.run())
        if not await self._listens(spare):
            await spare.drain(0.0)
            return "the new worker does not listen: the old one stays"
        self._serving = spare
        if not self._closing.is_set():
            self._group.create_task(old.drain(FINISHES_WITHIN, gently=True))
        return "a new worker serves, the old one finishes its replies"

    async def drain(self, seconds: float) -> None:
        """Accept no more and let workers finish; return when they are gone."""
        self._closing.set()
        self._listener.close()
        await asyncio.gather(*(place.drain(seconds) for place in self._places))

    async def _listens(self, place: Place) -> bool:
        end = self._clock.monotonic() + LISTENS_WITHIN
        while not place.listening and not self._closing.is_set():
            if self._clock.monotonic() > end:
                return False
            await self._clock.sleep(LOOK)
        return place.listening
