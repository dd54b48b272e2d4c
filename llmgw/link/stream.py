"""One stream of records, the same for both sides, with the guards that grpclib lacks.

grpclib's calls are made by `carry` alone, in the task that owns the call, and by the two helpers
that it owns. Whoever iterates over the stream or sends on it never is inside grpclib, so that its
way of cancelling tasks, which can swallow a cancel of ours, stays in here.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import grpclib.client
import msgspec
from grpclib.exceptions import GRPCError, StreamTerminatedError

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused, Unreachable
from llmgw.link import codec
from llmgw.link.guard import MESSAGE_LIMIT, Raw, read_message, said_status, transport_of
from llmgw.link.identity import Identity
from llmgw.link.status import from_status

In = TypeVar("In", bound=msgspec.Struct)
Out = TypeVar("Out", bound=msgspec.Struct)

QUEUE_MESSAGES: Final = 256
QUEUE_BYTES: Final = 64 << 20
"""What may wait for the peer to read; beyond either bound the stream is cut."""

INBOX: Final = 64
"""Records that may wait for their reader; beyond it the peer is throttled."""

MISSED: Final = 3
"""Intervals without a message after which a peer is dead."""

CLOSE_TIMEOUT: Final = 5.0
"""How long an orderly end may take before the connection is cut."""

_SUSPENDED: Final = 1.0
"""Seconds by which a timer that is late says that this process itself did not run."""
_GRACE: Final = 0.5


class Stream(Generic[In, Out]):
    """A stream of records from and to one peer.

    It ends once, for one reason: the peer's, `abort`, `close`, a dead peer, a certificate that
    ended, a queue that is full. Everything is called from the loop's own thread.

    Args:
        received: type of the records that come in.
        peer: `host:port`, for sentences.
        clock: time.
        silence: seconds without a message after which the peer is dead.
        identity: whom the peer's certificate names; its end ends the stream. None on the side that
            dialled.
        answer: makes the answer to a record that came in and is to be answered here; it is handed
            on all the same.
    """

    def __init__(
        self,
        received: type[In],
        *,
        peer: str,
        clock: Clock,
        silence: float,
        identity: Identity | None = None,
        answer: Callable[[In], Out | None] | None = None,
    ) -> None:
        self.identity = identity
        self.peer = peer
        self.received = 0
        """Messages that came in."""
        self._type = received
        self._clock = clock
        self._silence = silence
        self._answer = answer
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._inbox: asyncio.Queue[In | None] = asyncio.Queue(INBOX)
        self._heard = clock.monotonic()
        self._transport: asyncio.Transport | None = None
        self._guard: asyncio.Task[None] | None = None
        self._helpers: tuple[asyncio.Task[None], ...] = ()
        self._closing = False
        self._error: LlmgwError | None = None
        self._fault: LlmgwError | None = None
        self._over = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Say whether the stream is over."""
        return self._over.is_set()

    @property
    def fault(self) -> LlmgwError | None:
        """Return what this side refuses the peer for, which it is told; None when for nothing."""
        return self._fault

    def send(self, record: Out) -> None:
        """Queue a record; never blocks, and does nothing once the stream is over or closing.

        A peer that does not read loses its stream when the queue is full.

        Raises:
            Unreadable: the record has a value that does not fit its field.
            Refused: it is larger than any message may be.
        """
        if self._closing or self.ended:
            return
        data = codec.encode(record)
        if len(data) > MESSAGE_LIMIT:
            raise Refused(f"a message of {len(data)} bytes, and {MESSAGE_LIMIT} is the limit")
        if self._outbox.qsize() >= QUEUE_MESSAGES or self._waiting + len(data) > QUEUE_BYTES:
            count = self._outbox.qsize()
            self.abort(f"{count} messages wait for it, the queue is full: it does not read")
            return
        self._waiting += len(data)
        self._outbox.put_nowait(data)

    def __aiter__(self) -> AsyncIterator[In]:
        return self

    async def __anext__(self) -> In:
        """Return the next record; what came in before the end is still handed out.

        Raises:
            Unreachable: the stream broke, or was cut.
            LlmgwError: the peer refused, in its words.
        """
        record = None
        if not (self.ended and self._inbox.empty()):
            record = await self._inbox.get()
        if record is not None:
            return record
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def expect_every(self, seconds: float) -> None:
        """Take the peer for dead when it misses three of these intervals, counted from now."""
        self._silence = MISSED * seconds
        self._heard = self._clock.monotonic()
        self._watch_anew()

    def renewed(self, identity: Identity) -> None:
        """Note that the peer got a new certificate over this stream: its end is the stream's."""
        self.identity = identity
        self._watch_anew()

    def abort(self, reason: str) -> None:
        """End the stream at once; whoever iterates over it is told the reason."""
        if self.ended:
            return
        if self._transport is not None:
            # close() would wait for the peer's close_notify, and the peer may be gone.
            self._transport.abort()
        self._end(Unreachable(f"{self.peer}: {reason}"))

    def fail(self, error: LlmgwError) -> None:
        """End the stream because of what the peer sent or is; it is told so (accepting side)."""
        self._fault = self._fault or error
        self.close_soon()

    def close_soon(self) -> None:
        """End the stream when what is queued is sent; returns at once."""
        if not self._closing and not self.ended:
            self._closing = True
            self._outbox.put_nowait(None)
            if self._transport is None:
                self._end(None)

    async def close(self) -> None:
        """End the stream when what is queued is sent; cut it when that takes too long."""
        self.close_soon()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._over.wait()
        self.abort("it did not take the rest in time")

    async def carry(self, raw: Raw) -> None:
        """Move messages until the stream is over. Called by the task that owns the grpclib call.

        Returns without an error whatever ended the stream: iterating over it says so. On the side
        that accepted, grpclib cancels this task when the connection is lost.
        """
        self._transport = transport_of(raw)
        dialled = isinstance(raw, grpclib.client.Stream)
        reader = asyncio.create_task(self._read(raw), name="link reader")
        writer = asyncio.create_task(self._write(raw), name="link writer")
        # The accepting side ends by returning, when all is written; the other when all is read.
        last = reader if dialled else writer
        self._helpers = (reader, writer)
        self._heard = self._clock.monotonic()
        self._watch_anew()
        lost: LlmgwError | None = Unreachable(f"{self.peer}: the connection was lost")
        try:
            lost = await _first_error(reader, writer, last)
        finally:
            self._end(lost)
            await _stop(reader, writer)

    async def _read(self, raw: Raw) -> None:
        try:
            while (data := await read_message(raw)) is not None:
                self._heard = self._clock.monotonic()
                record = codec.decode(data, self._type)
                self.received += 1
                if self._answer is not None and (answer := self._answer(record)) is not None:
                    self.send(answer)
                await self._inbox.put(record)
                self._heard = self._clock.monotonic()
            if isinstance(raw, grpclib.client.Stream):
                said_status(raw)
        except Exception as error:
            raise self._told(raw, error) from error
        await self._inbox.put(None)

    async def _write(self, raw: Raw) -> None:
        try:
            while (data := await self._outbox.get()) is not None:
                await raw.send_message(data)
                self._waiting -= len(data)
            if isinstance(raw, grpclib.client.Stream):
                await raw.end()
        except Exception as error:
            raise self._told(raw, error) from error

    def _told(self, raw: Raw, error: Exception) -> LlmgwError:
        """Return what ended a stream, in words; grpclib and h2 raise nearly anything."""
        if isinstance(error, LlmgwError):
            # What the peer sent is wrong: the accepting side answers with a status.
            self._fault = error
            return error
        if isinstance(error, StreamTerminatedError) and isinstance(raw, grpclib.client.Stream):
            with suppress(StreamTerminatedError):
                try:
                    said_status(raw)
                except GRPCError as status:
                    error = status
        if isinstance(error, GRPCError):
            return from_status(error, self.peer)
        if isinstance(error, StreamTerminatedError):
            return Unreachable(f"{self.peer}: the connection was lost")
        return Unreachable(f"{self.peer}: the stream broke ({error!r})")

    def _end(self, error: LlmgwError | None) -> None:
        if self.ended:
            return
        self._error = error
        self._over.set()
        for task in (*self._helpers, self._guard):
            if task is not None:
                task.cancel()
        # A full inbox has no waiting reader; it finds the end when it has emptied it.
        with suppress(asyncio.QueueFull):
            self._inbox.put_nowait(None)

    def _watch_anew(self) -> None:
        if self._transport is None or self.ended:
            return
        if self._guard is not None:
            self._guard.cancel()
        self._guard = asyncio.create_task(self._watch(), name="link watchdog")

    async def _watch(self) -> None:
        """Cut the stream of a dead peer, or of one whose certificate ended."""
        while True:
            now = self._clock.monotonic()
            silent = self._heard + self._silence - now
            valid = self.identity.ends - self._clock.now() if self.identity else math.inf
            if valid <= 0:
                self.abort("its certificate ended")
                return
            if silent <= 0:
                if not self._inbox.full():
                    self.abort(f"no message from it for {self._silence:g} s")
                    return
                # It is our reader that is slow: messages wait to be heard.
                self._heard = now
                continue
            wait = min(silent, valid)
            await self._clock.sleep(wait)
            if self._clock.monotonic() - now - wait > _SUSPENDED:
                # This process stood still itself: what came in meanwhile is read first.
                await self._clock.sleep(_GRACE)


async def _first_error(
    reader: asyncio.Task[None], writer: asyncio.Task[None], last: asyncio.Task[None]
) -> LlmgwError | None:
    """Wait until `last` is done or either task failed; return the failure."""
    running = {reader, writer}
    while running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = Unreachable("cut") if task.cancelled() else task.exception()
            if isinstance(error, LlmgwError):
                return error
        if last in done:
            return None
    return None


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    done, _ = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
    for task in done:
        if not task.cancelled():
            task.exception()  # else asyncio reports that nobody asked
