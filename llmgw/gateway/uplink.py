"""One gateway's conversation with a control plane: the table comes down, counts go up."""

from collections.abc import Callable, Sequence

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.log import get
from llmgw.gateway.frames import TableFrame
from llmgw.gateway.journal import UsageJournal
from llmgw.gateway.membership import Membership
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.table import TOPICS, TableBook
from llmgw.gateway.users_certificate import UsersCertificate
from llmgw.link.dial import GatewaySide
from llmgw.model.feed import Batch, Follow, Position
from llmgw.model.gateway import (
    EndpointDown,
    EngineLoads,
    GatewayRegister,
    LoadReport,
    TrafficReport,
    WorkersReport,
)
from llmgw.model.keys import QuotaGrant
from llmgw.model.link import (
    CertificateIssued,
    GatewayControl,
    GatewayMessage,
    Goodbye,
    UsageTaken,
    Welcome,
)
from llmgw.model.live import AskRequests, CancelRequests

log = get(__name__)

DOWN_AGAIN = 5.0
"""Seconds for which an engine that cannot be reached is told once."""


class Uplink:
    """What this gateway tells and is told; `session` runs once a stream.

    Args:
        membership: who this gateway is.
        book: the table.
        journal: usage that has to reach the store.
        quotas: what keys used, and what this gateway is lent of their limits.
        register: returns the first message's content.
        tell: hands a change of the table to the workers; with None only `current` changed.
        configured: addresses of control planes that were configured.
        clock: time.
        on_loads: told what engines say that they have to do.
        on_question: asked for requests in flight, or to end some; `tell_requests` takes the answer.
        on_restart: told who wants all workers restarted.
        shown: what users are shown, when that is the cluster's to sign.
    """

    def __init__(
        self,
        membership: Membership,
        book: TableBook,
        journal: UsageJournal,
        quotas: Quotas,
        register: Callable[[], GatewayRegister],
        tell: Callable[[TableFrame], None],
        *,
        configured: Sequence[str],
        clock: Clock,
        on_loads: Callable[[EngineLoads], None] = lambda _: None,
        on_question: Callable[[AskRequests | CancelRequests], None] = lambda _: None,
        on_restart: Callable[[str], None] = lambda _: None,
        shown: UsersCertificate | None = None,
    ) -> None:
        self.current = False
        """The table is what the control plane says now."""
        self.keys_sure = True
        """A key that is not in the table is no key: the control plane can ask its store."""
        self._on_loads = on_loads
        self._on_question = on_question
        self._on_restart = on_restart
        self._shown = shown
        self._membership = membership
        self._book = book
        self._journal = journal
        self._quotas = quotas
        self._register = register
        self._tell = tell
        self._configured = tuple(configured)
        self._learned = membership.control_planes
        self._clock = clock
        self._stream: GatewaySide | None = None
        self._welcomed = False
        self._down: dict[str, float] = {}
        self._load: LoadReport | None = None
        self._workers: WorkersReport | None = None
        """What was told last on this stream."""

    def addresses(self) -> tuple[str, ...]:
        """Return where control planes may be: what one of them said last, then the configured."""
        return tuple(dict.fromkeys((*self._learned, *self._configured)))

    async def session(self, stream: GatewaySide) -> float | None:
        """Serve one stream; return the seconds that a goodbye asked to wait."""
        self._stream, self._welcomed, self._load = stream, False, None
        self._workers = None
        self.keys_sure = True
        self._book.begin()
        stream.send(GatewayMessage(register=self._register()))
        try:
            async for message in stream:
                goodbye = self._take(stream, message)
                if goodbye is not None:
                    return goodbye.reconnect_after
            return None
        finally:
            self._stream = None
            if self.current:
                self.current = False
                self._tell(TableFrame())

    def send_counts(self, traffic: Sequence[TrafficReport]) -> None:
        """Send usage that was not sent on this stream yet, and how things go."""
        stream = self._stream
        if stream is None or not self._welcomed:
            return
        try:
            for report in self._journal.due():
                stream.send(GatewayMessage(usage=report))
            for seen in traffic:
                stream.send(GatewayMessage(traffic=seen))
            used = self._quotas.report()
            if used is not None:
                stream.send(GatewayMessage(quotas=used))
            self._ask_for_certificates(stream)
        except LlmgwError as error:
            log.warning("a report could not be sent", why=error.message)

    def _ask_for_certificates(self, stream: GatewaySide) -> None:
        for own in (self._membership, self._shown):
            request = own.request(self._clock.now()) if own is not None else None
            if request is not None:
                stream.send(GatewayMessage(certificate_request=request))

    def engine_down(self, down: EndpointDown) -> None:
        """Tell that an engine cannot be reached, once for a while."""
        now = self._clock.monotonic()
        self._down = {name: at for name, at in self._down.items() if now - at < DOWN_AGAIN}
        if self._stream is not None and self._welcomed and down.replica not in self._down:
            self._down[down.replica] = now
            self._stream.send(GatewayMessage(endpoint_down=down))

    def load(self, report: LoadReport) -> None:
        """Tell what is in flight now, unless that is known."""
        if self._stream is None or not self._welcomed or report == self._load:
            return
        try:
            self._stream.send(GatewayMessage(loads=report))
        except LlmgwError as error:
            log.warning("a report could not be sent", why=error.message)
        else:
            self._load = report

    def workers(self, report: WorkersReport) -> None:
        """Tell which workers there are now, unless that is known."""
        if self._stream is not None and self._welcomed and report != self._workers:
            self._stream.send(GatewayMessage(workers=report))
            self._workers = report

    def tell_requests(self, answer: GatewayMessage) -> None:
        """Answer a question about requests in flight; dropped where nobody waits any more."""
        if self._stream is not None and self.listened_to:
            self._stream.send(answer)

    @property
    def listened_to(self) -> bool:
        """Say whether a control plane has welcomed this gateway on a stream that is open."""
        return self._stream is not None and self._welcomed

    def reached(self, position: Position) -> None:
        """Tell that all workers serve by the table of a place in the feed."""
        if self._stream is not None and self.listened_to:
            self._stream.send(GatewayMessage(reached=position))

    def _take(self, stream: GatewaySide, message: GatewayControl) -> Goodbye | None:
        match message:
            case GatewayControl(welcome=Welcome() as welcome):
                self._begin(stream, welcome)
            case GatewayControl(batch=Batch() as batch):
                self._apply(batch)
            case GatewayControl(usage_taken=UsageTaken() as taken):
                self._journal.taken(taken)
            case GatewayControl(certificate=CertificateIssued() as issued):
                self._issued(issued)
            case GatewayControl(quotas=QuotaGrant() as grant):
                self._quotas.grant(grant)
                if grant.store_away is self.keys_sure:
                    self.keys_sure = not grant.store_away
                    self._tell(TableFrame())
            case GatewayControl(goodbye=Goodbye() as goodbye):
                log.info("the control plane said goodbye", reason=goodbye.reason)
                if goodbye.leader is not None:
                    self._learned = tuple(dict.fromkeys((goodbye.leader, *self._learned)))
                return goodbye
            case _:
                self._hand_on(message)  # pings are answered by the link
        return None

    def _issued(self, issued: CertificateIssued) -> None:
        if not issued.for_users:
            self._membership.issued(issued)
        elif self._shown is not None:
            self._shown.issued(issued)

    def _hand_on(self, message: GatewayControl) -> None:
        """Give to the workers what is theirs."""
        question = message.ask_requests or message.cancel_requests
        if message.restart_workers is not None:
            self._on_restart(message.restart_workers.actor)
        elif message.engine_loads is not None:
            self._on_loads(message.engine_loads)
        elif question is not None:
            self._on_question(question)

    def _begin(self, stream: GatewaySide, welcome: Welcome) -> None:
        self._welcomed = True
        if welcome.control_planes:
            self._learned = welcome.control_planes
            self._membership.remember(welcome.control_planes)
        stream.expect_every(welcome.heartbeat_interval)
        self._journal.stream_began()
        self._quotas.stream_began()
        follow = Follow(topics=TOPICS, position=self._book.position)
        stream.send(GatewayMessage(follow=follow))

    def _apply(self, batch: Batch) -> None:
        frame = self._book.apply(batch)
        if frame is None:
            return
        self.current = self.current or not batch.more
        self._tell(frame)
