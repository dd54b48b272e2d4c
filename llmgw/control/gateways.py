"""The streams of the gateways: routes, keys and settings go down; usage and traffic come up."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.control.certificates import Certificates
from llmgw.control.engine_loads import Telling
from llmgw.control.events import Events
from llmgw.control.feed import Feed
from llmgw.control.gateway_feed import GatewayFeed
from llmgw.control.gateway_session import GatewaySession, GatewayStream
from llmgw.control.gateway_troubles import GatewayTroubles
from llmgw.control.gateway_usage import GatewayUsage
from llmgw.control.greeting import Greeting
from llmgw.control.key_use import KeyUses
from llmgw.control.leader import Leader
from llmgw.control.live import LiveRequests
from llmgw.control.loads import Loads
from llmgw.control.peer import certified
from llmgw.control.quotas import Quotas, in_parts
from llmgw.control.settings import LiveSettings
from llmgw.control.traffic import Traffic
from llmgw.control.writing import Writing
from llmgw.link.identity import Identity
from llmgw.model.bounds import bounded
from llmgw.model.events import WARNING
from llmgw.model.feed import Follow, Position
from llmgw.model.gateway import (
    ENGINE_LOADS,
    QUOTAS,
    REACHED,
    EndpointDown,
    Gateway,
    GatewayRegister,
    LoadReport,
    ModelTraffic,
    TrafficReport,
    WorkersReport,
)
from llmgw.model.keys import Key, QuotaGrant, QuotaReport, UsageReport
from llmgw.model.link import (
    CertificateRequest,
    GatewayControl,
    GatewayMessage,
    Goodbye,
    Pong,
)
from llmgw.model.settings import NodeSettings
from llmgw.plan.records import Load
from llmgw.store.interface import Store

logger = log.get(__name__)

CATCH_UP = 1.5
"""Seconds for which a change waits for gateways to serve by it: some batches of the feed."""


class Gateways:
    """Every gateway's live stream, at most one a gateway, and what gateways counted.

    Invariant: as with agents, another stream takes the place of a session only with the same
    certificate, and from another process only when the first is gone (LINK-6b).
    """

    def __init__(
        self,
        store: Store,
        feed: Feed,
        events: Events,
        leader: Leader,
        settings: LiveSettings,
        certificates: Certificates,
        *,
        greeting: Greeting,
        clock: Clock,
        loads: Loads,
        writing: Writing,
    ) -> None:
        self._store = store
        self._loads = loads
        self._events = events
        self._leader = leader
        self._settings = settings
        self._certificates = certificates
        self._greeting = greeting
        self._clock = clock
        self._sessions: dict[str, GatewaySession] = {}
        self._known: dict[str, Gateway] = {}
        self._traffic = Traffic()
        self._troubles = GatewayTroubles(events, clock)
        self._feed = GatewayFeed(feed, clock, self._live)
        self.quotas = Quotas(clock)
        self.key_uses = KeyUses(clock)
        self._usage = GatewayUsage(store, writing, self.key_uses, clock)
        self.live = LiveRequests(self._sessions, self.all, clock)

    def all(self) -> tuple[Gateway, ...]:
        """Return every gateway that connected since this start, by id."""
        return tuple(self._known[gateway] for gateway in sorted(self._known))

    def traffic(self) -> tuple[TrafficReport, ...]:
        """Return the newest report of each worker of each gateway."""
        return self._traffic.reports()

    def live_traffic(self) -> tuple[TrafficReport, ...]:
        """Return the newest report of each worker of the gateways that are connected."""
        return tuple(one for one in self._traffic.reports() if one.gateway in self._sessions)

    def queues(self) -> dict[str, dict[str, int]]:
        """Return how many requests wait, by gateway and model, as gateways said last."""
        return {
            name: {one.model: one.queued for one in report.queues}
            for name, report in self._loads.reports().items()
        }

    def traffic_by_model(self) -> dict[str, ModelTraffic]:
        """Return traffic by model, summed over everything, as far as the store has it.

        It never falls, whatever is killed.
        """
        return self._traffic.by_model()

    async def load(self) -> None:
        """Read what gateways had counted when the last control plane ended."""
        stored = await self._store.traffic()
        self._traffic = Traffic()
        self._traffic.load(stored)
        for one in stored:
            self._loads.away(one.gateway)

    async def keep_traffic(self) -> int:
        """Store what gateways counted; return of how many gateways there was news.

        Raises:
            LlmgwError: the store can't be written; the next call tries again.
        """
        counted = self._traffic.unwritten()
        if counted:
            await self._store.put_traffic(counted)
            self._traffic.written(counted)
        return len(counted)

    def connected(self, gateway: str) -> bool:
        """Say whether a gateway has a live stream here."""
        return gateway in self._sessions

    def session(self, gateway: str) -> GatewaySession | None:
        """Return a gateway's live stream; None when it has none here."""
        return self._sessions.get(gateway)

    async def caught_up(self, limit: float = CATCH_UP) -> bool:
        """Wait until every connected gateway serves by what the feed says now.

        A gateway that does not tell how far it is, or leaves meanwhile, is not waited for.

        Args:
            limit: seconds after which one that is slow is left behind.

        Returns:
            False when one was.
        """
        return await self._feed.caught_up(limit)

    def _live(self) -> tuple[GatewaySession, ...]:
        return tuple(self._sessions.values())

    def cut(self, gateway: str, reason: str) -> None:
        """End a gateway's stream; it is told why, and goes on serving what it knows."""
        session = self._sessions.get(gateway)
        if session is not None:
            session.ended = reason
            self._leave(session)
            session.stream.fail(Refused(reason))

    def turn_away(self, goodbye: Goodbye) -> None:
        """End every stream: another control plane leads."""
        for session in self._live():
            session.stream.send(GatewayControl(goodbye=goodbye))
            self.cut(session.identity.id, goodbye.reason)

    def lend(self, keys: Mapping[str, Key], *, store_away: bool = False) -> int:
        """Lend slices of keys' limits to the gateways; return how many were told something."""
        grants = self.quotas.grants(keys, store_away=store_away)
        for gateway, grant in grants.items():
            for part in in_parts(grant):
                self._sessions[gateway].stream.send(GatewayControl(quotas=part))
        return len(grants)

    def tell_engine_loads(self, loads: Callable[[], Iterable[Load]], limit: float) -> int:
        """Tell gateways what is new to them of engines' loads; return how many were told.

        Args:
            loads: returns what is known of every replica; called when there is somebody to tell.
            limit: the age in seconds from which on a figure says nothing.
        """
        listening = [one for one in self._live() if one.telling is not None]
        known = tuple(loads()) if listening else ()
        told = 0
        for session in listening:
            news = session.telling and session.telling.news(known, self._clock.now(), limit)
            if news:
                session.stream.send(GatewayControl(engine_loads=news))
                told += 1
        return told

    def ping(self) -> int:
        """Ping every gateway and return how many there are.

        A gateway has no heartbeat of its own: its answers are what its silence is measured by.
        """
        for session in self._live():
            session.ping(self._clock.monotonic())
        return len(self._sessions)

    async def on_gateway(self, stream: GatewayStream) -> None:
        """Serve one gateway's stream to its end.

        Raises:
            Refused: it may not speak here; the link tells the gateway so in these words.
            Unreachable: the stream broke.
        """
        messages = aiter(stream)
        first = await anext(messages, None)
        if first is None:
            return
        if not self._leader.leading:
            stream.send(GatewayControl(goodbye=self._leader.goodbye()))
            return
        first, cut = bounded(first)
        session = self._admit(stream, first)
        self._troubles.cut(session, cut)
        try:
            async for message in messages:
                if self._sessions.get(session.identity.id) is not session:
                    return
                session.heard = self._clock.monotonic()
                kept, cut = bounded(message)
                self._troubles.cut(session, cut)
                await self._take(session, kept)
        finally:
            self._leave(session)
            await self._feed.end(session)

    def _admit(self, stream: GatewayStream, first: GatewayMessage) -> GatewaySession:
        register = first.register
        if register is None:
            raise Refused("the first message of a gateway is Register")
        identity = self._speaks_for(stream, register)
        self._make_room(stream, identity, register)
        return self._welcome(stream, identity, register)

    def _speaks_for(self, stream: GatewayStream, register: GatewayRegister) -> Identity:
        identity = certified(stream, register.gateway, "a gateway")
        if self._certificates.denied(identity.serial):
            raise Refused(f"gateway {identity.id} was removed: its certificate is denied")
        return identity

    def _make_room(
        self, stream: GatewayStream, identity: Identity, register: GatewayRegister
    ) -> None:
        """Let a stream take the place of an older one of the same gateway, or refuse it."""
        held = self._sessions.get(identity.id)
        if held is None:
            return
        interval = self._settings.current.settings.link.heartbeat_interval
        quiet = held.is_quiet(self._clock.monotonic(), interval)
        if held.gives_way(identity, register, quiet=quiet):
            held.give_place_to(stream.peer)
            return
        self._troubles.clash(held, stream.peer)
        raise Refused(
            f"{identity.id} is connected already: {held.stream.peer} keeps the id, "
            f"{stream.peer} is another gateway or another installation",
            hint="let one of them join under another name, or stop it",
        )

    def _welcome(
        self, stream: GatewayStream, identity: Identity, register: GatewayRegister
    ) -> GatewaySession:
        link = self._settings.current.settings.link
        session = GatewaySession(
            stream=stream,
            identity=identity,
            register=register,
            heard=self._clock.monotonic(),
            serials={identity.serial},
            reached=0 if REACHED in (register.features or ()) else None,
            telling=Telling() if ENGINE_LOADS in (register.features or ()) else None,
        )
        self._sessions[identity.id] = session
        self._loads.unknown(identity.id)
        if register.boot is not None:
            self._traffic.new_boot(identity.id, register.boot)
        self._known[identity.id] = session.shown(self._clock.now())
        stream.expect_every(link.heartbeat_interval)
        welcome = self._greeting.welcome(
            term=self._leader.term,
            settings=NodeSettings(version=self._settings.current.version),
            interval=link.heartbeat_interval,
            lost_after=link.lost_after,
        )
        stream.send(GatewayControl(welcome=welcome))
        if QUOTAS in (register.features or ()):
            self.quotas.connected(identity.id, register.boot)
            stream.send(GatewayControl(quotas=QuotaGrant(gateways=0)))
        where = f": users reach it at {register.url}" if register.url else ""
        self._events.add("gateway", identity.id, f"gateway {identity.id} connected{where}")
        return session

    async def _take(self, session: GatewaySession, message: GatewayMessage) -> None:
        match message:
            case GatewayMessage(follow=Follow() as follow):
                await self._feed.follow(session, follow)
            case GatewayMessage(usage=UsageReport() as usage):
                await self._usage.book(session, usage)
            case (
                GatewayMessage(traffic=TrafficReport() as counted)
                | GatewayMessage(loads=LoadReport() as counted)
                | GatewayMessage(quotas=QuotaReport() as counted)
                | GatewayMessage(workers=WorkersReport() as counted)
            ):
                self._counted(session, counted)
            case GatewayMessage(pong=Pong(number=number)):
                if session.answered(number, self._clock.monotonic()):
                    self._loads.settled(session.identity.id, session.settled)
            case GatewayMessage(reached=Position() as position):
                self._feed.reached(session, position)
            case GatewayMessage(endpoint_down=EndpointDown() as down):
                self._troubles.endpoint_down(session, down)
            case GatewayMessage(certificate_request=CertificateRequest() as request):
                await self._renew(session, request)
            case GatewayMessage(register=GatewayRegister()):
                raise Refused(f"{session.identity.id} registered twice on one stream")
            case _:
                self.live.answered(session.identity.id, message)

    def _counted(
        self,
        session: GatewaySession,
        report: TrafficReport | LoadReport | QuotaReport | WorkersReport,
    ) -> None:
        if report.gateway != session.identity.id:
            return
        if isinstance(report, TrafficReport):
            self._traffic.take(report)
            self._loads.counted(report)
        elif isinstance(report, LoadReport):
            self._loads.take(report)
        elif isinstance(report, WorkersReport):
            self._replace(session, started=report.workers)
        else:
            self.quotas.take(report)
            self.key_uses.told(report)

    def _replace(self, session: GatewaySession, **changes: object) -> None:
        gateway = session.identity.id
        self._known[gateway] = msgspec.structs.replace(self._known[gateway], **changes)

    async def _renew(self, session: GatewaySession, request: CertificateRequest) -> None:
        identity, csr = session.identity, request.csr_pem
        try:
            if request.for_users:
                peer = session.stream.peer
                shown = await self._certificates.for_users(identity, csr, peer)
                session.stream.send(GatewayControl(certificate=shown))
                return
            signed, issued = await self._certificates.renew(identity, csr)
        except LlmgwError as error:
            logger.warning("not renewed", gateway=identity.id, why=error.message)
            return
        session.renewed(signed.serial, signed.begins, signed.ends)
        self._replace(session, certificate_ends=signed.ends, certificate_begins=signed.begins)
        session.stream.send(GatewayControl(certificate=issued))

    def _leave(self, session: GatewaySession) -> None:
        """Forget a stream, once; a newer one of the same gateway is left alone."""
        gateway = session.identity.id
        if self._sessions.get(gateway) is not session:
            return
        del self._sessions[gateway]
        self._feed.left()
        self._traffic.idle(gateway)
        self._loads.away(gateway)
        self.quotas.left(gateway)
        self.live.left(gateway)
        self._known[gateway] = msgspec.structs.replace(
            self._known[gateway],
            connected=False,
            peer=None,
            since=self._clock.now(),
            started=None,
        )
        why = f": {session.ended}" if session.ended else ""
        self._events.add("gateway", gateway, f"gateway {gateway} is gone{why}", severity=WARNING)
