"""A cluster in one process for the tests of the link: a CA, a link server, peers that dial it."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock, SystemClock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.link.dial import Dialer
from llmgw.link.identity import check_id
from llmgw.link.server import AgentStream, GatewayStream, LinkServer
from llmgw.link.stream import Stream
from llmgw.link.tls import TlsFiles, client_context, files_in, server_context
from llmgw.model.link import (
    AgentControl,
    AgentMessage,
    AuthorityAnswer,
    GatewayControl,
    JoinAnswer,
    JoinRequest,
    Welcome,
)
from llmgw.model.node import Register
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import make_join_token, secret_matches

HOUR = 3600.0


def welcome(interval: float = 5.0) -> Welcome:
    return Welcome(
        cluster="north",
        server="head",
        server_version="0.1.0",
        term=1,
        epoch="e1",
        heartbeat_interval=interval,
        lost_after=60.0,
    )


class Control:
    """The control plane's part: welcomes whoever registers, keeps what it hears and its end."""

    def __init__(self, place: "Place") -> None:
        self.place = place
        self.streams: list[Any] = []
        self.heard: list[Any] = []
        self.ends: list[str] = []
        self.held: asyncio.Event | None = None
        """When set, a session waits for it instead of reading."""
        self.interval: float | None = None
        """What `expect_every` is told after a register."""
        self.asked: list[JoinRequest] = []
        self.shown: Authority | None = None
        """The CA that it says is its own; None: the truth."""
        self.broken: Exception | None = None
        """What joining and serving raise, as if there were a bug."""

    async def agent(self, stream: AgentStream) -> None:
        await self._session(stream, lambda: AgentControl(welcome=welcome()))

    async def gateway(self, stream: GatewayStream) -> None:
        await self._session(stream, lambda: GatewayControl(welcome=welcome()))

    async def _session(self, stream: Any, hello: Callable[[], Any]) -> None:
        self.streams.append(stream)
        ended = "clean"
        if self.broken is not None:
            raise self.broken
        try:
            async for message in stream:
                self.heard.append(message)
                if message.register is not None:
                    if isinstance(message.register, Register):
                        check_id(stream.identity, message.register.node)
                    stream.send(hello())
                    if self.interval is not None:
                        stream.expect_every(self.interval)
                if self.held is not None:
                    await self.held.wait()
        except LlmgwError as error:
            ended = error.message
            raise
        finally:
            self.ends.append(ended)

    async def authority(self) -> AuthorityAnswer:
        shown = self.shown or self.place.authority
        return AuthorityAnswer(cluster=shown.cluster, authority_pem=shown.certificate_pem)

    async def join(self, request: JoinRequest, peer: str) -> JoinAnswer:
        self.asked.append(request)
        if self.broken is not None:
            raise self.broken
        place = self.place
        token = place.tokens.get(request.token)
        if token is None or not secret_matches(token, request.secret):
            raise Refused("the token is not known", hint="make a new one")
        if token.used is not None:
            raise Refused("the token was used before", hint="make a new one")
        if token.expires <= place.clock.now():
            raise Refused("the token ended", hint="make a new one")
        signed = place.authority.sign(
            request.csr_pem,
            role=token.role,
            subject=token.subject,
            now=place.clock.now(),
            lifetime=HOUR,
        )
        place.use(token.id)
        return JoinAnswer(
            cluster=place.authority.cluster,
            role=token.role,
            subject=token.subject,
            certificate_pem=signed.certificate_pem,
            authority_pem=place.authority.certificate_pem,
        )


class Place:
    """One test's cluster.

    Args:
        directory: for certificates.
        clock: of the server and the CA.
        silence: seconds until a silent peer is dead.
    """

    def __init__(self, directory: Path, clock: Clock | None = None, silence: float = 15.0) -> None:
        self.directory = directory
        self.clock = clock or SystemClock()
        self.authority = Authority.create("north", self.clock.now())
        self.control = Control(self)
        self.denied: set[str] = set()
        self.tokens: dict[str, Any] = {}
        self.silence = silence
        self.server_files = self.issue("server", "head")
        self.context = server_context(self.server_files)
        self.server = self.new_server()
        self.port = 0
        self._dialers: list[tuple[Dialer, asyncio.Task[None]]] = []

    def new_server(self, context: ssl.SSLContext | None = None) -> LinkServer:
        return LinkServer(
            context or self.context,
            on_agent=self.control.agent,
            on_gateway=self.control.gateway,
            on_join=self.control,
            clock=self.clock,
            silence=self.silence,
            denied=self.denied.__contains__,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def issue(
        self,
        role: str,
        subject: str,
        lifetime: float = HOUR,
        authority: Authority | None = None,
        addresses: Sequence[str] = (),
        ago: float = 0.0,
    ) -> TlsFiles:
        signer = authority or self.authority
        place = self.directory / f"{signer.sha256[:8]}-{role}-{subject}"
        signer.issue(
            place,
            role=role,
            subject=subject,
            addresses=addresses,
            now=self.clock.now() - ago,
            lifetime=lifetime,
        )
        return files_in(place)

    def issue_of(self, role: str, subject: str) -> TlsFiles:
        """Return the files that were issued before."""
        return files_in(self.directory / f"{self.authority.sha256[:8]}-{role}-{subject}")

    def token(self, role: str = "node", subject: str = "gpu-01", lifetime: float = HOUR) -> str:
        record, text = make_join_token(
            self.authority, role=role, subject=subject, now=self.clock.now(), lifetime=lifetime
        )
        self.tokens[record.id] = record
        return text

    def use(self, token_id: str) -> None:
        token = self.tokens[token_id]
        self.tokens[token_id] = type(token)(
            id=token.id,
            sha256=token.sha256,
            role=token.role,
            subject=token.subject,
            expires=token.expires,
            used=self.clock.now(),
        )

    async def start(self, port: int = 0) -> None:
        self.port = await self.server.start("127.0.0.1", port)

    def dialer(
        self,
        files: TlsFiles | None,
        service: str = "agent",
        clock: Clock | None = None,
        silence: float = 15.0,
        addresses: Sequence[str] | None = None,
        claim: str | None = None,
    ) -> Dialer:
        return Dialer(
            lambda: addresses if addresses is not None else [self.address],
            lambda: client_context(files) if files is not None else None,
            service,
            clock=clock or SystemClock(),
            rng=random.Random(1),
            backoff=Backoff(first=0.05, most=0.2),
            silence=silence,
            claim=claim,
        )

    def run(
        self, dialer: Dialer, session: Callable[[Stream[Any, Any]], Awaitable[float | None]]
    ) -> None:
        """Run a dialer until the end of the test."""
        self._dialers.append((dialer, asyncio.create_task(dialer.run(session))))

    async def end(self) -> None:
        for dialer, _ in self._dialers:
            dialer.stop()
        for _, task in self._dialers:
            await asyncio.wait({task}, timeout=10)
            task.result()
        await self.server.stop("the test is over")


class Peer:
    """A peer's session: registers, and keeps what it hears."""

    def __init__(self, node: str = "gpu-01") -> None:
        self.node = node
        self.heard: list[Any] = []
        self.ends: list[str] = []
        self.stream: Any = None
        self.sessions = 0

    async def __call__(self, stream: Stream[Any, Any]) -> float | None:
        self.sessions += 1
        self.stream = stream
        stream.send(AgentMessage(register=Register(node=self.node)))
        try:
            async for message in stream:
                self.heard.append(message)
                if message.goodbye is not None:
                    self.ends.append(f"goodbye: {message.goodbye.reason}")
                    after: float | None = message.goodbye.reconnect_after
                    return after
        except LlmgwError as error:
            self.ends.append(error.message)
            raise
        self.ends.append("clean")
        return None

    def welcomes(self) -> int:
        return sum(message.welcome is not None for message in self.heard)
