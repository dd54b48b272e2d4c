"""A helper process that answers what a test says, or hangs."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from llmgw.base.errors import LlmgwError, TimedOut
from llmgw.model.record import Record
from llmgw.model.shard import Progress

A = TypeVar("A")


class FakeHelper:
    """Answers each request by a function of it; a `LlmgwError` that it returns is raised.

    `hold` makes it wait; a request that waits is answered when it is set to False again. What it
    answers is encoded and decoded, as between processes.
    """

    def __init__(self, answering: Callable[[Any], Record | LlmgwError]) -> None:
        self.answering = answering
        self.asked: list[Record] = []
        self.tell: list[Progress] = []
        self.released = asyncio.Event()
        self.released.set()
        self.closed = False
        self.cancelled = 0

    def hold(self) -> None:
        self.released.clear()

    def release(self) -> None:
        self.released.set()

    async def ask(
        self,
        request: Record,
        answer: type[A],
        *,
        silence: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> A:
        self.asked.append(request)
        for told in self.tell:
            if progress is not None:
                progress(told)
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        said = self.answering(request)
        if isinstance(said, LlmgwError):
            raise said
        return msgspec.json.decode(msgspec.json.encode(said), type=answer)

    async def close(self) -> None:
        self.closed = True


def silent(_request: Record) -> TimedOut:
    """Answer as a helper that was killed for its silence."""
    return TimedOut("helper: no answer within 5 s")
