"""The one service that answers machines without a certificate."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

import grpclib.server
import msgspec
from grpclib.const import Cardinality, Handler
from grpclib.exceptions import StreamTerminatedError

from llmgw.base import log
from llmgw.base.errors import LlmgwError, Unreachable, Unreadable
from llmgw.link import codec
from llmgw.link.guard import JOIN_LIMIT, peer_of, read_message
from llmgw.link.status import to_status
from llmgw.model.link import AuthorityAnswer, JoinAnswer, JoinRequest

logger = log.get(__name__)

RawStream = grpclib.server.Stream[Any, Any]


class JoinHandler(Protocol):
    """What the control plane answers a machine that wants to join."""

    async def authority(self) -> AuthorityAnswer:
        """Return the cluster's name and CA."""
        ...

    async def join(self, request: JoinRequest, peer: str) -> JoinAnswer:
        """Trade a one-time token for a certificate.

        Args:
            request: token and signing request.
            peer: `host:port` of the machine, for the log.

        Raises:
            NotFound: there is no such token.
            Refused: the secret is wrong, or the token was used or ended, or is for another id.
        """
        ...


class JoinService:
    """Joining over gRPC.

    Args:
        handler: answers.
        spawn: runs a coroutine in a task that outlives the call: a token that is used must not be
            lost half way because the machine hung up.
    """

    def __init__(
        self,
        handler: JoinHandler,
        spawn: Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"],
    ) -> None:
        self._handler = handler
        self._spawn = spawn

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by route."""
        return {
            codec.GET_AUTHORITY: _unary(self._get_authority),
            codec.JOIN: _unary(self._join),
        }

    async def _get_authority(self, raw: RawStream) -> None:
        await self._answer(raw, lambda _: self._handler.authority())

    async def _join(self, raw: RawStream) -> None:
        def join(data: bytes) -> Coroutine[Any, Any, JoinAnswer]:
            return self._handler.join(codec.decode(data, JoinRequest), peer_of(raw))

        await self._answer(raw, join)

    async def _answer(
        self, raw: RawStream, ask: Callable[[bytes], Coroutine[Any, Any, msgspec.Struct]]
    ) -> None:
        try:
            answer = await asyncio.shield(self._spawn(ask(await _message(raw))))
        except LlmgwError as error:
            logger.warning("join refused", peer=peer_of(raw), why=error.message)
            raise to_status(error) from error
        except Exception as error:
            logger.exception("join failed", peer=peer_of(raw))
            words = "the control plane failed on this request; its log has the reason"
            raise to_status(Unreachable(words)) from error
        with suppress(StreamTerminatedError):
            await raw.send_message(codec.encode(answer))


async def _message(raw: RawStream) -> bytes:
    data = await read_message(raw, JOIN_LIMIT)
    if data is None:
        raise Unreadable("the request has no message")
    return data


def _unary(serve: Callable[[RawStream], Coroutine[Any, Any, None]]) -> Handler:
    return Handler(serve, Cardinality.UNARY_UNARY, bytes, bytes)
