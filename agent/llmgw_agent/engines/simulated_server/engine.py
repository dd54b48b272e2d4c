"""What the simulated engine would compute: slots, time per token, words, counters, faults."""

import asyncio
import itertools
import re
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from llmgw_agent.engines.simulated_server.arguments import Arguments

WORDS = (" simulated", " words", " that", " no", " model", " has", " computed", ",")
"""Whoever reads a reply sees at once what it is."""

_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])")


class CutOff(Exception):
    """The connection is to be closed in the middle of the reply, as the engine was told."""


@dataclass(slots=True)
class Slot:
    """One request that is being served."""

    id: int
    task: int | None = None
    prompt_tokens: int = 0
    decoded: int = 0


class Engine:
    """The slots and their clockwork. Tokens of a request come at even times, whoever else runs."""

    def __init__(self, arguments: Arguments, crash: Callable[[], None]) -> None:
        self.arguments = arguments
        self.loaded = False
        self.prompt_tokens = 0
        self.prompt_seconds = 0.0
        self.predicted = 0
        self.predicted_seconds = 0.0
        self.waiting = 0
        self.slots = [Slot(id=number) for number in range(arguments.parallel)]
        self._crash = crash
        self._free = asyncio.Semaphore(arguments.parallel)
        self._tasks = itertools.count()

    @property
    def running(self) -> int:
        """Return how many requests are being served."""
        return sum(slot.task is not None for slot in self.slots)

    @asynccontextmanager
    async def slot(self, prompt_tokens: int) -> AsyncIterator[Slot]:
        """Wait for a free slot and hold it."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        slot = next(slot for slot in self.slots if slot.task is None)
        slot.task, slot.prompt_tokens, slot.decoded = next(self._tasks), prompt_tokens, 0
        try:
            yield slot
        finally:
            slot.task = None
            self._free.release()

    async def tokens(self, slot: Slot, count: int) -> AsyncIterator[str]:
        """Yield `count` words, each when its time has come.

        Raises:
            CutOff: the fault was asked for.
        """
        loop, fault = asyncio.get_running_loop(), self.arguments.fault
        await self._prompt(slot)
        start = last = loop.time()
        for number in range(count):
            if fault.hang_after is not None and number >= fault.hang_after:
                await asyncio.Event().wait()
            if fault.cut_after is not None and number >= fault.cut_after:
                raise CutOff
            wait = start + (number + 1) / self.arguments.tokens_per_second - loop.time()
            # Even a late token lets the others run.
            await asyncio.sleep(max(0.0, wait))
            slot.decoded += 1
            self.predicted += 1
            now = loop.time()
            self.predicted_seconds += now - last
            last = now
            if fault.crash_after is not None and self.predicted >= fault.crash_after:
                self._crash()
            yield WORDS[number % len(WORDS)]

    async def _prompt(self, slot: Slot) -> None:
        rate = self.arguments.prompt_tokens_per_second
        seconds = slot.prompt_tokens / rate if rate else 0.0
        await asyncio.sleep(seconds)
        self.prompt_tokens += slot.prompt_tokens
        self.prompt_seconds += seconds


def pieces(text: str) -> list[str]:
    """Return a text as the pieces that count as tokens: words and signs."""
    return _PIECE.findall(text)


def token_id(piece: str) -> int:
    """Return a number for a piece: always the same one."""
    return zlib.crc32(piece.encode()) % 32000
