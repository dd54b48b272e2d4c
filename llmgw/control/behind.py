"""Writing behind: what happened goes to the store a little later, and never waits for it."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.control.writing import Writing

logger = log.get(__name__)

T = TypeVar("T")

BACKLOG = 1000
"""Records that wait for the store; the oldest is dropped, and said so, when it is away for long."""

AT_ONCE = 100
_AGAIN = 5.0
"""Seconds until the next try when the store is away."""


class Behind(Generic[T]):
    """Records on their way into the store, the newest of each id.

    Args:
        what: what they are called in the log: `events`.
        write: writes some, in order. When it raises all are tried again, so that writing a record
            twice must do no harm.
        clock: the time.
        writing: told how that goes.
    """

    def __init__(
        self,
        what: str,
        write: Callable[[Sequence[T]], Awaitable[None]],
        clock: Clock,
        writing: Writing,
    ) -> None:
        self._what = what
        self._write = write
        self._clock = clock
        self._writing = writing
        self._waiting: OrderedDict[str, T] = OrderedDict()
        self._wanted = asyncio.Event()
        self._failing = False
        self.dropped = 0

    def add(self, id_: str, record: T) -> None:
        """Let a record be written; one of the same id that waits is replaced."""
        self._waiting[id_] = record
        if len(self._waiting) > BACKLOG:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._wanted.set()

    def drop(self) -> None:
        """Write nothing of what waits: it is for somebody else to tell."""
        self._waiting.clear()

    def waiting(self) -> tuple[T, ...]:
        """Return what is not written yet, oldest first."""
        return tuple(self._waiting.values())

    async def write(self) -> int:
        """Write what waits; return how many were written."""
        written = 0
        while self._waiting:
            some = list(self._waiting.items())[:AT_ONCE]
            await self._write([record for _, record in some])
            for id_, record in some:
                # It may have been replaced by a newer one meanwhile, which still has to go.
                if self._waiting.get(id_) is record:
                    del self._waiting[id_]
            written += len(some)
        return written

    async def write_forever(self) -> None:
        """Carry records to the store until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.write()
            except LlmgwError as error:
                if not self._failing:
                    logger.warning("not written yet", what=self._what, error=error.message)
                self._failing = True
                self._writing.failed(self._what, error)
                await self._clock.sleep(_AGAIN)
                self._wanted.set()
            else:
                if self._failing:
                    logger.info("written again", what=self._what, dropped=self.dropped)
                self._failing = False
                self._writing.done(self._what)
