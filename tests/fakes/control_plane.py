"""A control plane as a gateway sees it: real link, real certificates, a test's own table."""

import asyncio
from pathlib import Path

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.gateway.table import Table
from llmgw.link.server import GatewayStream, LinkServer
from llmgw.link.tls import files_in, server_context
from llmgw.model.feed import (
    KEYS,
    ROUTES,
    SETTINGS,
    Batch,
    Change,
    ConfigChange,
    KeyChange,
    Position,
    RouteChange,
)
from llmgw.model.gateway import (
    EndpointDown,
    EngineLoads,
    GatewayRegister,
    LoadReport,
    RestartWorkers,
    TrafficReport,
    WorkersReport,
)
from llmgw.model.keys import JoinToken, QuotaReport, UsageReport, UsageTotals
from llmgw.model.link import (
    AuthorityAnswer,
    CertificateIssued,
    CertificateRequest,
    GatewayControl,
    GatewayMessage,
    JoinAnswer,
    JoinRequest,
    Ping,
    UsageTaken,
    Welcome,
)
from llmgw.model.live import AskRequests, CancelRequests, RequestsEnded, RequestsSeen
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import make_join_token, secret_matches

HOUR = 3600.0


class FakeControlPlane:
    """Takes gateways; what they say is kept in lists, newest last."""

    def __init__(self, directory: Path, *, lifetime: float = HOUR) -> None:
        self.clock = SystemClock()
        self.directory = directory
        self.lifetime = lifetime
        self.ca = Authority.create("north", self.clock.now())
        self.table = Table()
        self.registers: list[GatewayRegister] = []
        self.usage: list[UsageReport] = []
        self.traffic: list[TrafficReport] = []
        self.down: list[EndpointDown] = []
        self.loads: list[LoadReport] = []
        self.quotas: list[QuotaReport] = []
        self.seen: list[RequestsSeen] = []
        self.ended: list[RequestsEnded] = []
        self.workers: list[WorkersReport] = []
        self.takes_usage = True
        self.signs = True
        self.unsigned: list[tuple[GatewayStream, CertificateRequest]] = []
        """Requests for certificates that came while `signs` was off and wait for `sign`."""
        self.renewed = 0
        self.streams: set[GatewayStream] = set()
        self.tokens: dict[str, JoinToken] = {}
        self.port = 0
        self._server: LinkServer | None = None
        self.welcomes = True
        self.unwelcome: list[GatewayStream] = []
        """Gateways that registered while `welcomes` was off and wait for `welcome`."""
        self._number = 1
        self.reached: list[Position] = []
        self.ca.issue(
            directory / "server", role="server", subject="head", now=self.clock.now(), lifetime=HOUR
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; on the same port as before when it was started before."""
        self._server = LinkServer(
            server_context(files_in(self.directory / "server")),
            on_agent=self._no_agents,
            on_gateway=self._serve,
            on_join=self,
            clock=self.clock,
            silence=15.0,
        )
        self.port = await self._server.start("127.0.0.1", self.port)

    async def stop(self) -> None:
        """Go away without a goodbye."""
        for stream in tuple(self.streams):
            stream.abort("stopped by the test")
        if self._server is not None:
            await self._server.stop("the test stops it")
            self._server = None

    def gateway_files(self, name: str = "gw-1") -> Path:
        """Return a directory with a certificate for a gateway."""
        directory = self.directory / name
        self.ca.issue(
            directory, role="gateway", subject=name, now=self.clock.now(), lifetime=self.lifetime
        )
        return directory

    def join_token(self, name: str) -> str:
        """Return a one-time token for a gateway."""
        record, text = make_join_token(
            self.ca, role="gateway", subject=name, now=self.clock.now(), lifetime=HOUR
        )
        self.tokens[record.id] = record
        return text

    def show(self, table: Table) -> None:
        """Change the table and tell every gateway, as a whole new listing."""
        self.table = table
        self._number += 1
        for stream in self.streams:
            self._list(stream)

    def tell(self, *changes: Change) -> None:
        """Tell every gateway a change that is not a listing."""
        self._number += 1
        for stream in self.streams:
            stream.send(GatewayControl(batch=self._batch(changes)))

    def tell_loads(self, loads: EngineLoads) -> None:
        """Tell every gateway what engines have to do."""
        for stream in self.streams:
            stream.send(GatewayControl(engine_loads=loads))

    def ask(self, ask: AskRequests) -> None:
        """Ask every gateway for its requests in flight; `seen` takes the answers."""
        for stream in self.streams:
            stream.send(GatewayControl(ask_requests=ask))

    def cancel(self, cancel: CancelRequests) -> None:
        """Have every gateway end requests; `ended` takes the answers."""
        for stream in self.streams:
            stream.send(GatewayControl(cancel_requests=cancel))

    def restart(self, actor: str) -> None:
        """Have every gateway restart its workers."""
        for stream in self.streams:
            stream.send(GatewayControl(restart_workers=RestartWorkers(actor=actor)))

    @property
    def position(self) -> Position:
        """Return the place of the newest batch."""
        return Position(epoch="e1", number=self._number)

    def totals(self) -> dict[tuple[str, str], UsageTotals]:
        """Return what was used by key and model, over boots and workers, each report once."""
        newest: dict[tuple[str, int, str, str], UsageTotals] = {}
        for report in self.usage:
            for row in report.totals:
                newest[report.boot, report.worker, row.key, row.model] = row
        sums: dict[tuple[str, str], UsageTotals] = {}
        for (_, _, key, model), row in newest.items():
            known = sums.get((key, model)) or UsageTotals(key=key, model=model)
            sums[key, model] = UsageTotals(
                key=key,
                model=model,
                **{
                    name: getattr(known, name) + getattr(row, name)
                    for name in UsageTotals.__struct_fields__
                    if name not in {"key", "model"}
                },
            )
        return sums

    # What the link asks.

    async def _no_agents(self, stream: object) -> None:
        raise Refused("no agents here")

    async def _serve(self, stream: GatewayStream) -> None:
        pings = asyncio.ensure_future(self._ping(stream))
        try:
            async for message in stream:
                self._take(stream, message)
        except LlmgwError:
            pass
        finally:
            pings.cancel()
            self.streams.discard(stream)

    async def _ping(self, stream: GatewayStream) -> None:
        number = 0
        while True:
            await asyncio.sleep(0.5)
            number += 1
            stream.send(GatewayControl(ping=Ping(number=number)))

    def _take(self, stream: GatewayStream, message: GatewayMessage) -> None:
        match message:
            case GatewayMessage(register=GatewayRegister() as register):
                self.registers.append(register)
                if self.welcomes:
                    self.welcome(stream)
                else:
                    self.unwelcome.append(stream)
            case GatewayMessage(usage=UsageReport() as usage):
                self._take_usage(stream, usage)
            case GatewayMessage(traffic=TrafficReport() as traffic):
                self.traffic.append(traffic)
            case GatewayMessage(endpoint_down=EndpointDown() as down):
                self.down.append(down)
            case GatewayMessage(reached=Position() as position):
                self.reached.append(position)
            case _:
                self._take_rest(stream, message)

    def _take_rest(self, stream: GatewayStream, message: GatewayMessage) -> None:
        if message.loads is not None:
            self.loads.append(message.loads)
        if message.quotas is not None:
            self.quotas.append(message.quotas)
        if message.requests_seen is not None:
            self.seen.append(message.requests_seen)
        if message.requests_ended is not None:
            self.ended.append(message.requests_ended)
        if message.follow is not None:
            self.streams.add(stream)
            self._list(stream)
        if message.workers is not None:
            self.workers.append(message.workers)
        if message.certificate_request is not None:
            if self.signs:
                self.sign(stream, message.certificate_request)
            else:
                self.unsigned.append((stream, message.certificate_request))

    def sign(self, stream: GatewayStream, request: CertificateRequest) -> None:
        """Answer a request for a certificate."""
        config = self.table.config
        names = () if config is None else config.tls_names
        signed = self.ca.sign(
            request.csr_pem,
            role="users" if request.for_users else "gateway",
            subject=self.registers[-1].gateway,
            addresses=names if request.for_users else (),
            now=self.clock.now(),
            lifetime=self.lifetime,
        )
        if not request.for_users:
            self.renewed += 1
        issued = CertificateIssued(
            certificate_pem=signed.certificate_pem,
            authority_pem=self.ca.certificate_pem,
            for_users=request.for_users,
        )
        stream.send(GatewayControl(certificate=issued))

    def _take_usage(self, stream: GatewayStream, usage: UsageReport) -> None:
        if not self.takes_usage:
            return
        self.usage.append(usage)
        taken = UsageTaken(
            gateway=usage.gateway, boot=usage.boot, worker=usage.worker, sequence=usage.sequence
        )
        stream.send(GatewayControl(usage_taken=taken))

    def welcome(self, stream: GatewayStream) -> None:
        """Answer a gateway's first message."""
        stream.send(GatewayControl(welcome=self._welcome()))

    def _welcome(self) -> Welcome:
        return Welcome(
            cluster="north",
            server="head",
            server_version="0.1.0",
            term=1,
            epoch="e1",
            heartbeat_interval=1.0,
            lost_after=60.0,
        )

    def _list(self, stream: GatewayStream) -> None:
        """List in two batches, as a long listing comes."""
        table = self.table
        keys = tuple(
            Change(topic=KEYS, id=key.id, record=KeyChange(value=key))
            for key in table.keys.values()
        )
        routes = tuple(
            Change(topic=ROUTES, id=route.model, record=RouteChange(value=route))
            for route in table.routes.values()
        )
        config: tuple[Change, ...] = ()
        if table.config is not None:
            record = ConfigChange(value=table.config)
            config = (Change(topic=SETTINGS, id="gateway", record=record),)
        first = self._batch(keys, listing=True, more=True)
        stream.send(GatewayControl(batch=first))
        stream.send(GatewayControl(batch=self._batch((*routes, *config))))

    def _batch(
        self, changes: tuple[Change, ...], *, listing: bool = False, more: bool = False
    ) -> Batch:
        return Batch(
            position=Position(epoch="e1", number=0 if more else self._number),
            topics=(ROUTES, KEYS, SETTINGS),
            listing=listing,
            more=more,
            changes=changes,
        )

    async def authority(self) -> AuthorityAnswer:
        return AuthorityAnswer(cluster="north", authority_pem=self.ca.certificate_pem)

    async def join(self, request: JoinRequest, peer: str) -> JoinAnswer:
        token = self.tokens.pop(request.token, None)
        if token is None or not secret_matches(token, request.secret):
            raise Refused("the token is not known, or was used", hint="make a new one")
        signed = self.ca.sign(
            request.csr_pem,
            role=token.role,
            subject=token.subject,
            now=self.clock.now(),
            lifetime=self.lifetime,
        )
        return JoinAnswer(
            cluster="north",
            role=token.role,
            subject=token.subject,
            certificate_pem=signed.certificate_pem,
            authority_pem=self.ca.certificate_pem,
        )
