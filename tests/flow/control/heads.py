"""Control planes over one store in memory, each of which can be cut off from it and killed."""

import asyncio

from llmgw.base.errors import Unreachable
from llmgw.control.leader import TTL
from llmgw.store.memory import Memory, MemoryStore
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import make_plane

STEP = TTL / 10


class Head:
    """One control plane, which can be cut off from the store and killed."""

    def __init__(self, memory: Memory, clock: FakeClock, number: int) -> None:
        self.away = False
        self.clock = clock
        store = MemoryStore(memory, reach=self._reach)
        self.plane = make_plane(clock, store, seed=number, server_id=f"cp-{number}")
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.plane.open()
        self.task = asyncio.create_task(self.plane.run())
        await settle()

    async def kill(self) -> None:
        """End it as SIGKILL does: nothing is released and nobody is told."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def _reach(self) -> None:
        if self.away:
            raise Unreachable("no way to the store")

    def events(self) -> list[str]:
        return [event.words for event in self.plane.events.recent() if event.kind == "server"]


async def until(clock: FakeClock, head: Head, limit: float = 2 * TTL) -> float:
    """Let time pass until a control plane leads; return how much did."""
    began = clock.monotonic()
    while not head.plane.leader:
        assert clock.monotonic() - began < limit, "it does not lead"
        await clock.advance(STEP)
    return clock.monotonic() - began
