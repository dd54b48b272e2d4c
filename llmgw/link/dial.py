"""Keeping a stream to a control plane open: dial, serve, wait, dial again, for ever."""

import asyncio
import math
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from llmgw.base import log
from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, TimedOut
from llmgw.link.attempt import open_stream
from llmgw.link.codec import SERVICES
from llmgw.link.connect import CONNECT_TIMEOUT, Connection, Dropped, connect
from llmgw.link.own import why_not_accepted
from llmgw.link.stream import Stream
from llmgw.model.link import AgentControl, AgentMessage, GatewayControl, GatewayMessage, Pong

logger = log.get(__name__)

AgentSide = Stream[AgentControl, AgentMessage]
GatewaySide = Stream[GatewayControl, GatewayMessage]
Session = Callable[[Stream[Any, Any]], Awaitable[float | None]]


class Dialer:
    """Opens one stream after the other to whichever control plane answers.

    Pings are answered here; the session sees them too and needs not answer. After a stream ended or
    could not be opened, the next address is tried after a wait with full jitter, which grows until
    a stream lives longer than it; the first address, when a stream's end put another one there:
    whoever was sent on waits once as if nothing had failed, since a leader waits only so long for
    those that lost another.

    Args:
        addresses: asked before each attempt; `host:port` each, the likeliest first.
        context: asked before each attempt, so that a renewed certificate is used; it gives None for
            plaintext, which is for loopback alone. What it raises is told as any failed attempt.
        service: `agent` or `gateway`.
        clock: time.
        rng: jitter.
        backoff: how long to wait between attempts.
        silence: seconds without a message after which a control plane is dead, until
            `expect_every`.
        claim: who this is, as `identity.uri_of` gives it, for plaintext.
    """

    def __init__(
        self,
        addresses: Callable[[], Sequence[str]],
        context: Callable[[], ssl.SSLContext | None],
        service: str,
        *,
        clock: Clock,
        rng: random.Random,
        backoff: Backoff,
        silence: float,
        claim: str | None = None,
    ) -> None:
        self.opened = 0
        """Streams that a control plane accepted, since the start."""
        self.state = "not started"
        """What it is doing, in words."""
        self.address: str | None = None
        """Where the open stream leads; None while there is none."""
        self._addresses = addresses
        self._context = context
        self._service = SERVICES[service]
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._silence = silence
        self._claim = claim
        self._turn = 0
        self._sent_on = 0
        """Times in a row that a stream's end named another address."""
        self._stopping = asyncio.Event()
        self._stream: Stream[Any, Any] | None = None
        self._failed: str | None = None
        self._opened_at = math.inf

    async def run(self, session: Session) -> None:
        """Keep a stream open until `stop`.

        Args:
            session: serves one stream, in the caller's task; it returns the seconds that a goodbye
                asked to wait, or None. The stream is closed when it returns. An `LlmgwError` that
                it raises ends its stream and is told; any other error ends this call.
        """
        failures = 0
        while not self._stopping.is_set():
            self._opened_at = math.inf
            wait = await self._attempt(session)
            lived = self._clock.monotonic() - self._opened_at
            failures = 0 if lived >= self._backoff.limit(failures) else failures + 1
            attempt = 0 if self._sent_on == 1 else failures
            delay = (wait or 0.0) + self._backoff.delay(attempt, self._rng)
            if not self._stopping.is_set():
                self.state = f"{self._failed or 'the stream ended'}; again in {delay:.1f} s"
                await self._pause(delay)
        self.state = "stopped"

    def try_within(self, seconds: float) -> None:
        """Wait at most so long between two attempts from now on."""
        self._backoff = replace(self._backoff, most=seconds)

    def stop(self) -> None:
        """Make `run` return; an open stream ends when what is queued is sent."""
        self._stopping.set()
        if self._stream is not None:
            self._stream.close_soon()

    async def _attempt(self, session: Session) -> float | None:
        """Open and serve one stream; return the wait that a goodbye asked for."""
        addresses = self._addresses()
        if not addresses:
            self._failure("no control plane's address is known")
            return None
        address = addresses[self._turn % len(addresses)]
        self.state = f"connecting to {address}"
        try:
            context = self._context()
            connection = await connect(address, context)
            stream = self._new_stream(address)
            wait = await self._serve(connection, context, stream, session)
        except LlmgwError as error:
            self._failure(error.message if error.hint is None else f"{error.message}; {error.hint}")
            self._turn += 1
            self._sent_on = 0
            return None
        self._failed = None
        # A standby says goodbye and names the leader; where nobody is named, another may know more.
        named = list(self._addresses()[:1]) != list(addresses[:1])
        self._turn = 0 if named else self._turn + 1
        self._sent_on = self._sent_on + 1 if named else 0
        return wait

    async def _serve(
        self,
        connection: Connection,
        context: ssl.SSLContext | None,
        stream: Stream[Any, Any],
        session: Session,
    ) -> float | None:
        attempt, opened = open_stream(connection, self._service, stream, self._claim)
        try:
            await asyncio.wait({opened}, timeout=CONNECT_TIMEOUT)
            if not opened.done():
                words = f"{connection.address}: no stream was opened within {CONNECT_TIMEOUT:g} s"
                raise TimedOut(words)
            _accepted(opened, context, self._clock.now())
            self._connected(connection.address, stream)
            wait = await session(stream)
            await stream.close()
            return wait
        finally:
            self._stream = self.address = None
            if not opened.cancel() and not opened.cancelled():
                opened.exception()  # else asyncio reports that nobody asked
            stream.abort("left")
            await attempt.end()

    def _connected(self, address: str, stream: Stream[Any, Any]) -> None:
        self.opened += 1
        self._opened_at = self._clock.monotonic()
        self.address = address
        self.state = f"connected to {address}"
        self._stream = stream
        logger.info("connected", address=address)
        self._failed = None
        if self._stopping.is_set():
            stream.close_soon()

    def _new_stream(self, address: str) -> Stream[Any, Any]:
        up = self._service.up

        def answer(record: Any) -> Any:  # noqa: ANN401
            if record.ping is None:
                return None
            return up(pong=Pong(number=record.ping.number))

        return Stream(
            self._service.down,
            peer=address,
            clock=self._clock,
            silence=self._silence,
            answer=answer,
        )

    def _failure(self, words: str) -> None:
        """Tell the first failure and each other one that is new; not every attempt's."""
        if words != self._failed:
            logger.warning("no stream to a control plane", why=words)
        self._failed = words

    async def _pause(self, seconds: float) -> None:
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({sleep, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            stopped.cancel()


def _accepted(opened: "asyncio.Future[None]", context: ssl.SSLContext | None, now: float) -> None:
    """Raise why a stream was not accepted, if it was not."""
    try:
        opened.result()
    except Dropped as error:
        address = error.message.partition(": ")[0]
        raise why_not_accepted(context, address, now) or error from error
