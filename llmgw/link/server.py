"""The control plane's side of the link: who may connect, what serves them, how it ends in order."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpclib.server
from grpclib.const import Cardinality, Handler

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused, Unreachable
from llmgw.link.codec import AGENT, GATEWAY, Service
from llmgw.link.guard import peer_of, transport_of
from llmgw.link.identity import Identity, check_role, identity_of
from llmgw.link.joining import JoinHandler, JoinService
from llmgw.link.listen import Bind, Listener, bound
from llmgw.link.plain import claimed_identity
from llmgw.link.status import to_status
from llmgw.link.stream import CLOSE_TIMEOUT, Stream
from llmgw.model.link import AgentControl, AgentMessage, GatewayControl, GatewayMessage, Goodbye

logger = log.get(__name__)

AgentStream = Stream[AgentMessage, AgentControl]
GatewayStream = Stream[GatewayMessage, GatewayControl]
Serve = Callable[[Stream[Any, Any]], Awaitable[None]]

LINGER: Final = 5.0
"""Seconds between the end of a stream and the cut of its connection."""

SPREAD: Final = 0.008
"""Seconds of this process's CPU that one returning peer costs: goodbyes ask them back apart."""


class LinkServer:
    """Accepts agents and gateways, and machines that want to join.

    `on_agent` and `on_gateway` are awaited once a stream, in a task of this server's own that never
    is inside grpclib; the stream ends when they return. A `LlmgwError` that they raise reaches the
    peer in its words.

    Args:
        context: from `tls.server_context`; None is plaintext, for loopback alone.
        on_agent: serves one agent's stream.
        on_gateway: serves one gateway's stream.
        on_join: answers machines that have no certificate yet.
        clock: time.
        silence: seconds without a message after which a peer is dead, until `expect_every`.
        denied: says of a certificate's serial that it no longer opens anything.
        bind: makes the listening socket.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        *,
        on_agent: Callable[[AgentStream], Awaitable[None]],
        on_gateway: Callable[[GatewayStream], Awaitable[None]],
        on_join: JoinHandler,
        clock: Clock,
        silence: float,
        denied: Callable[[str], bool] = lambda _: False,
        bind: Bind = bound,
    ) -> None:
        self._context = context
        self._on_agent = on_agent
        self._on_gateway = on_gateway
        self._clock = clock
        self._silence = silence
        self._denied = denied
        self._streams: dict[Stream[Any, Any], Service] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._joining = JoinService(on_join, self._spawn)
        self._listener = Listener(self, context, bind)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which is a free one when 0 was asked for.

        Raises:
            Usage: the address can't be listened on, or is no loopback address in plaintext.
        """
        return await self._listener.start(host, port)

    async def stop(self, reason: str, reconnect_after: float | None = None) -> None:
        """Stop listening, say goodbye to every peer, end the streams in order, cut what is left.

        Args:
            reason: told to the peers.
            reconnect_after: seconds after which the first peer may return; the others follow apart.
        """
        self._stopping = True
        self._listener.close()
        streams = tuple(self._streams.items())
        for number, (stream, service) in enumerate(streams):
            after = None if reconnect_after is None else reconnect_after + SPREAD * number
            stream.send(service.down(goodbye=Goodbye(reason=reason, reconnect_after=after)))
        await asyncio.gather(*(stream.close() for stream, _ in streams))
        await self._end_tasks()
        self._listener.abort()

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the routes, as grpclib asks for them."""
        both = (AGENT, self._agent), (GATEWAY, self._gateway)
        streams = {
            service.route: Handler(serve, Cardinality.STREAM_STREAM, bytes, bytes)
            for service, serve in both
        }
        return {**streams, **self._joining.routes()}

    async def _agent(self, raw: grpclib.server.Stream[Any, Any]) -> None:
        await self._serve(raw, AGENT, self._on_agent)

    async def _gateway(self, raw: grpclib.server.Stream[Any, Any]) -> None:
        await self._serve(raw, GATEWAY, self._on_gateway)

    async def _serve(
        self, raw: grpclib.server.Stream[Any, Any], service: Service, serve: Serve
    ) -> None:
        peer = peer_of(raw)
        try:
            identity = self._admit(raw, service)
        except LlmgwError as error:
            logger.warning("refused", peer=peer, service=service.name, why=error.message)
            raise to_status(error) from error
        stream: Stream[Any, Any] = Stream(
            service.up, peer=peer, clock=self._clock, silence=self._silence, identity=identity
        )
        await self._carry(raw, stream, service, serve)
        if stream.fault is not None:
            raise to_status(stream.fault)

    async def _carry(
        self,
        raw: grpclib.server.Stream[Any, Any],
        stream: Stream[Any, Any],
        service: Service,
        serve: Serve,
    ) -> None:
        transport = transport_of(raw)
        self._streams[stream] = service
        self._listener.keep(transport)
        session: asyncio.Task[None] | None = None
        try:
            # The peer counts a stream as open when it sees this; without it a refusal would follow.
            await raw.send_initial_metadata()
            session = self._spawn(_session(stream, serve))
            await stream.carry(raw)
        finally:
            del self._streams[stream]
            stream.abort("the connection was lost")
            loop = asyncio.get_running_loop()
            loop.call_later(LINGER, transport.abort)
            if session is not None and not session.done():
                # It has seen the end of its stream; what doesn't return from that is ended.
                ending = loop.call_later(CLOSE_TIMEOUT, session.cancel)
                session.add_done_callback(lambda _: ending.cancel())

    def _admit(self, raw: grpclib.server.Stream[Any, Any], service: Service) -> Identity:
        """Return who connects, or say in words why not."""
        if self._stopping:
            raise Unreachable("this control plane is stopping")
        if self._context is None:
            identity = claimed_identity(raw.metadata)
        else:
            identity = identity_of(raw.peer.cert())
        check_role(identity, service.role)
        if self._denied(identity.serial):
            raise Refused(
                f"the certificate of {identity} was withdrawn: it was removed from the cluster",
                hint="join again with a new token",
            )
        if identity.ends <= self._clock.now():
            raise Refused(
                f"the certificate of {identity} ended", hint="join again with a new token"
            )
        return identity

    def _spawn(self, work: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        """Run something in a task that this server owns and ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _end_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)


async def _session(stream: Stream[Any, Any], serve: Serve) -> None:
    try:
        await serve(stream)
    except LlmgwError as error:
        tell = logger.info if stream.ended else logger.warning
        tell("stream ended", peer=stream.peer, who=str(stream.identity), why=error.message)
        stream.fail(error)
    except Exception:
        # One peer's stream must not take the others with it.
        logger.exception("stream failed", peer=stream.peer, who=str(stream.identity))
        stream.fail(Unreachable("the control plane failed on this stream; its log has the reason"))
    else:
        await stream.close()
