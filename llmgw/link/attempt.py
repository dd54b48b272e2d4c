"""One grpclib call in a task of its own, which is the only way to be sure of getting rid of it.

grpclib turns a cancel that coincides with the loss of a connection into another error, and so a
task inside a call can live on after it was cancelled. No timeout and no task group encloses one:
it is ended by cutting its transport, waited for a while, and dropped if it still does not end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from llmgw.base import log
from llmgw.base.errors import LlmgwError, TimedOut, Unreachable
from llmgw.link import codec
from llmgw.link.codec import Service
from llmgw.link.connect import Connection, Dropped
from llmgw.link.guard import MESSAGE_LIMIT, read_message
from llmgw.link.plain import HEADER
from llmgw.link.status import from_status
from llmgw.link.stream import Stream

logger = log.get(__name__)

R = TypeVar("R", bound=msgspec.Struct)

END_TIMEOUT: Final = 5.0


class Attempt:
    """A call on a connection that is its own.

    Args:
        connection: cut when the call ends.
        work: what is inside grpclib.
    """

    def __init__(self, connection: Connection, work: Coroutine[Any, Any, Any]) -> None:
        self._connection = connection
        self._task: asyncio.Task[Any] = asyncio.create_task(work, name="link call")

    async def done(self, timeout: float) -> bool:
        """Wait for the call to return by itself; say whether it did."""
        done, _ = await asyncio.wait({self._task}, timeout=timeout)
        return bool(done)

    async def end(self) -> None:
        """Cut the connection and wait for the task, but not for ever."""
        self._connection.abort()
        done, _ = await asyncio.wait({self._task}, timeout=END_TIMEOUT)
        if not done:
            logger.warning("dropped a call that does not end", address=self._connection.address)
        elif not self._task.cancelled():
            self._task.exception()

    def result(self) -> Any:  # noqa: ANN401
        """Return what the call returned, or raise what ended it, in words."""
        try:
            return self._task.result()
        except (Exception, asyncio.CancelledError) as error:
            raise in_words(error, self._connection) from error


def open_stream(
    connection: Connection, service: Service, stream: Stream[Any, Any], claim: str | None
) -> tuple[Attempt, "asyncio.Future[None]"]:
    """Start a service's stream; the future is done when the other side accepted or refused it."""
    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    return Attempt(connection, _carry(connection, service, stream, claim, opened)), opened


async def _carry(
    connection: Connection,
    service: Service,
    stream: Stream[Any, Any],
    claim: str | None,
    opened: "asyncio.Future[None]",
) -> None:
    metadata = {HEADER: claim} if claim is not None else None
    try:
        async with connection.channel.request(
            service.route, Cardinality.STREAM_STREAM, bytes, bytes, metadata=metadata
        ) as raw:
            await raw.send_request()
            await raw.recv_initial_metadata()
            if not opened.done():
                opened.set_result(None)
            await stream.carry(raw)
            # With its transport cut the block is left at once instead of waiting for the peer.
            connection.abort()
    except Exception as error:
        if not opened.done():
            opened.set_exception(in_words(error, connection))
        raise
    finally:
        if not opened.done():
            opened.set_exception(in_words(asyncio.CancelledError(), connection))


async def ask(
    connection: Connection, route: str, request: bytes, answer: type[R], timeout: float
) -> R:
    """Send one request and return its answer; the connection is used up.

    Raises:
        TimedOut: no answer within `timeout` seconds.
        LlmgwError: the other side refused, in its words, or the connection was lost.
    """
    attempt = Attempt(connection, _ask(connection, route, request))
    try:
        if not await attempt.done(timeout):
            raise TimedOut(f"{connection.address}: no answer within {timeout:g} s")
        data = attempt.result()
    finally:
        await attempt.end()
    if data is None:
        raise Unreachable(f"{connection.address}: answered with nothing")
    return codec.decode(data, answer)


async def _ask(connection: Connection, route: str, request: bytes) -> bytes | None:
    async with connection.channel.request(route, Cardinality.UNARY_UNARY, bytes, bytes) as raw:
        await raw.send_message(request, end=True)
        await raw.recv_initial_metadata()
        return await read_message(raw, MESSAGE_LIMIT)


def in_words(error: BaseException, connection: Connection) -> LlmgwError:
    """Return what ended a call as an error for a person."""
    if isinstance(error, LlmgwError):
        return error
    if isinstance(error, GRPCError):
        return from_status(error, connection.address)
    why = connection.why_lost()
    if why is not None:
        return why
    if isinstance(error, StreamTerminatedError | asyncio.CancelledError):
        return Dropped(
            f"{connection.address}: dropped the connection before it accepted a stream",
            hint="its log may tell; join again with a new token if it no longer knows this machine",
        )
    return Unreachable(f"{connection.address}: the call broke ({error!r})")
