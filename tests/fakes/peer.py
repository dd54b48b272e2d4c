"""A stream in memory, with both ends in the test's hands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from llmgw.base.errors import LlmgwError, Unreachable
from llmgw.link.identity import Identity

In = TypeVar("In")
Out = TypeVar("Out")


def identity(role: str, id_: str, *, serial: str = "01", ends: float = 4e9) -> Identity:
    """Return what a certificate of a test's cluster says."""
    return Identity(cluster="llmgw", role=role, id=id_, serial=serial, ends=ends)


class MemoryStream(Generic[In, Out]):
    """What a control plane accepts; `say`, `hang_up` and `sever` are the peer's side of it."""

    def __init__(self, who: Identity | None, peer: str) -> None:
        self.identity = who
        self.peer = peer
        self.sent: list[Out] = []
        self.interval: float | None = None
        self.aborted: str | None = None
        self.refused: LlmgwError | None = None
        self.on_sent: Callable[[Out], None] | None = None
        self._inbox: asyncio.Queue[In | LlmgwError | None] = asyncio.Queue()
        self._over = False

    # The side that accepted it.

    @property
    def ended(self) -> bool:
        return self._over

    def __aiter__(self) -> AsyncIterator[In]:
        return self

    async def __anext__(self) -> In:
        if self._over and self._inbox.empty():
            raise StopAsyncIteration
        said = await self._inbox.get()
        if isinstance(said, LlmgwError):
            self._over = True
            raise said
        if said is None:
            self._over = True
            raise StopAsyncIteration
        return said

    def send(self, record: Out) -> None:
        if not self._over:
            self.sent.append(record)
            if self.on_sent is not None:
                self.on_sent(record)

    def expect_every(self, seconds: float) -> None:
        self.interval = seconds

    def renewed(self, who: Identity) -> None:
        self.identity = who

    def fail(self, error: LlmgwError) -> None:
        self.refused = self.refused or error
        self._inbox.put_nowait(None)

    def abort(self, reason: str) -> None:
        self.aborted = self.aborted or reason
        self._inbox.put_nowait(Unreachable(f"{self.peer}: {reason}"))

    # The peer's side.

    def say(self, record: In) -> None:
        self._inbox.put_nowait(record)

    def hang_up(self) -> None:
        """End the stream cleanly."""
        self._inbox.put_nowait(None)

    def sever(self) -> None:
        """Lose the connection."""
        self._inbox.put_nowait(Unreachable(f"{self.peer}: the connection was lost"))
