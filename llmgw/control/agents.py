"""The streams of the agents: what they say is applied to the fleet, what is asked goes down.

One task a stream: the one that the link server runs `on_agent` in. It only reads; what goes down is
queued by whoever sends it.
"""

import random
from collections.abc import Awaitable, Callable

import msgspec

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.control.agent_session import AgentSession
from llmgw.control.asking import STUCK, Asking
from llmgw.control.certificates import Certificates
from llmgw.control.fleet import Fleet
from llmgw.control.greeting import Greeting
from llmgw.control.leader import Leader
from llmgw.control.nodes import Arrival
from llmgw.control.peer import PeerStream, certified
from llmgw.control.peer_session import CLASH_SHOWN
from llmgw.control.settings import LiveSettings
from llmgw.link.identity import Identity
from llmgw.model.bounds import Cuts, bounded
from llmgw.model.commands import ApplySettings
from llmgw.model.link import AgentControl, AgentMessage, Goodbye, Notice
from llmgw.model.node import Heartbeat, Register
from llmgw.model.settings import NodeSettings

logger = log.get(__name__)

CLASH = "clash"
"""The trouble of a node whose id two machines use."""
EXCESS = "excess"
"""The trouble of a node that says more than is kept."""


class Agents:
    """Every agent's live stream, at most one a node.

    Invariant: a node's session is the one stream that speaks for it. Another stream takes its
    place only from the same machine with the same certificate, and from another agent there only
    when the first is gone; any other is refused and the first keeps its place (LINK-6b).
    """

    def __init__(
        self,
        fleet: Fleet,
        leader: Leader,
        settings: LiveSettings,
        certificates: Certificates,
        *,
        greeting: Greeting,
        clock: Clock,
        rng: random.Random,
        registered: Callable[[str], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self._leader = leader
        self._settings = settings
        self._certificates = certificates
        self._greeting = greeting
        self._clock = clock
        self._registered = registered
        self._sessions: dict[str, AgentSession] = {}
        self._cut: dict[str, tuple[str | None, Cuts]] = {}
        """By node, what was cut of what its agent of that boot said."""
        self.asking = Asking(
            self._sessions,
            fleet,
            leader,
            clock=clock,
            rng=rng,
            deadline=lambda: settings.current.settings.link.request_deadline,
        )
        self.ask = self.asking.ask
        self.follow_logs = self.asking.follow_logs
        """Both as `Asking` has them."""
        self.opened = 0
        """Streams that were welcomed since the start."""

    def connected(self, node: str) -> bool:
        """Say whether a node has a live stream here."""
        return node in self._sessions

    @property
    def count(self) -> int:
        """Return how many agents are connected."""
        return len(self._sessions)

    # Ending streams.

    def cut(self, node: str, reason: str) -> None:
        """End a node's stream; nothing that it says from now on is taken, and it is told why."""
        session = self._sessions.get(node)
        self._cut.pop(node, None)
        if session is not None:
            session.ended = reason
            self._leave(session)
            session.stream.fail(Refused(reason))

    def turn_away(self, goodbye: Goodbye) -> None:
        """End every stream: another control plane leads."""
        for node, session in tuple(self._sessions.items()):
            session.stream.send(AgentControl(goodbye=goodbye))
            self.cut(node, goodbye.reason)

    # Settings.

    def behind(self) -> tuple[str, ...]:
        """Return the connected nodes whose settings differ from those in force, by id.

        An agent that does not take settings while it runs learns them in its next welcome.
        """
        newest = self._settings.for_node()
        return tuple(
            sorted(
                node
                for node, session in self._sessions.items()
                if session.answers(ApplySettings) and not _same_settings(session.settings, newest)
            )
        )

    async def bring_up(self, node: str) -> None:
        """Tell a node the settings in force; raises as `ask` does."""
        session = self._sessions.get(node)
        if session is None:
            return
        newest = self._settings.for_node()
        await self.ask(node, ApplySettings(settings=newest))
        session.settings = newest
        if newest.heartbeat_interval is not None:
            session.stream.expect_every(newest.heartbeat_interval)
            self._fleet.told(node, newest.heartbeat_interval)

    # The streams.

    async def on_agent(self, stream: PeerStream[AgentMessage, AgentControl]) -> None:
        """Serve one agent's stream to its end.

        Raises:
            Refused: it may not speak here; the link tells the agent so in these words.
            Unreachable: the stream broke.
        """
        messages = aiter(stream)
        first = await anext(messages, None)
        if first is None:
            return
        if not self._leader.leading:
            stream.send(AgentControl(goodbye=self._leader.goodbye()))
            return
        first, cut = bounded(first)
        session = await self._admit(stream, first)
        self._note_cut(session, cut)
        try:
            await self._registered(session.node)
            async for message in messages:
                if self._sessions.get(session.node) is not session:
                    return
                kept, cut = bounded(message)
                if cut:
                    self._note_cut(session, cut)
                await self._take(session, kept)
        finally:
            self._leave(session)

    async def _admit(
        self, stream: PeerStream[AgentMessage, AgentControl], first: AgentMessage
    ) -> AgentSession:
        register = first.register
        if register is None:
            raise Refused("the first message of an agent is Register")
        identity = self._speaks_for(stream, register)
        if register.highest_term is not None:
            await self._leader.saw(register.highest_term)
            if not self._leader.leading:
                raise self._leader.elsewhere()
            # It may have been removed while the store was asked.
            self._speaks_for(stream, register)
        self._make_room(stream, identity, register)
        return self._welcome(stream, identity, register)

    def _speaks_for(
        self, stream: PeerStream[AgentMessage, AgentControl], register: Register
    ) -> Identity:
        identity = certified(stream, register.node, "an agent")
        if self._certificates.denied(identity.serial):
            raise Refused(
                f"{identity.id} was removed from the cluster: its certificate is denied",
                hint=f"make a new token for it: llmgw ctl node token {identity.id}",
            )
        return identity

    def _make_room(
        self,
        stream: PeerStream[AgentMessage, AgentControl],
        identity: Identity,
        register: Register,
    ) -> None:
        """Let a stream take the place of an older one of the same machine, or refuse it."""
        held = self._sessions.get(identity.id)
        if held is None:
            return
        interval = self._settings.current.settings.link.heartbeat_interval
        quiet = held.is_quiet(self._clock.monotonic(), interval)
        if held.gives_way(identity, register, quiet=quiet):
            held.give_place_to(stream.peer)
            self._leave(held)
            return
        self._clash(held, stream.peer)
        raise Refused(
            f"{identity.id} is connected already: {held.stream.peer} keeps the id, "
            f"{stream.peer} is another machine or another installation",
            hint="give one of them another id, or stop its agent",
        )

    def _clash(self, held: AgentSession, refused: str) -> None:
        """Tell of two machines with one id: people here, and the machine that keeps it."""
        host = refused.rpartition(":")[0]
        known = held.clashed is not None and held.clashed_with == host
        held.clashed, held.clashed_with = self._clock.monotonic(), host
        if not known:
            words = (
                f"two machines use this id: {held.stream.peer} is connected, {refused} was refused"
            )
            self._fleet.trouble(held.node, CLASH, words)
            held.stream.send(AgentControl(notice=Notice(words=f"{held.node}: {words}")))

    def _note_cut(self, session: AgentSession, cut: Cuts) -> None:
        """Tell once of each field of which an agent, since it started, says more than is kept."""
        node, boot = session.node, session.register.boot
        before, known = self._cut.pop(node, (boot, {}))
        if before != boot:
            known = {}
            self._fleet.trouble(node, EXCESS, None)
        now = {**known, **cut}
        if now:
            self._cut[node] = boot, now
        if now.keys() != known.keys():
            told = ", ".join(now[field] for field in sorted(now))
            self._fleet.trouble(node, EXCESS, f"says more than is kept, the rest is cut: {told}")

    def _welcome(
        self,
        stream: PeerStream[AgentMessage, AgentControl],
        identity: Identity,
        register: Register,
    ) -> AgentSession:
        link = self._settings.current.settings.link
        settings = self._settings.for_node()
        session = AgentSession(
            node=identity.id,
            stream=stream,
            identity=identity,
            register=register,
            opened=self._clock.monotonic(),
            heard=self._clock.monotonic(),
            settings=settings,
            serials={identity.serial},
        )
        self._sessions[identity.id] = session
        self.opened += 1
        stream.expect_every(link.heartbeat_interval)
        welcome = self._greeting.welcome(
            term=self._leader.term,
            settings=settings,
            interval=link.heartbeat_interval,
            lost_after=link.lost_after,
        )
        stream.send(AgentControl(welcome=welcome))
        self._fleet.register(
            register,
            Arrival(
                session=session.number,
                peer=stream.peer,
                interval=link.heartbeat_interval,
                certificate_ends=identity.ends,
                certificate_begins=identity.begins,
            ),
        )
        return session

    async def _take(self, session: AgentSession, message: AgentMessage) -> None:
        node, number = session.node, session.number
        session.heard = self._clock.monotonic()
        match message:
            case AgentMessage(heartbeat=Heartbeat() as heartbeat):
                self._beat(session, heartbeat)
            case AgentMessage(shard=status) if status is not None:
                self._fleet.shard(node, number, status)
            case AgentMessage(inventory=inventory) if inventory is not None:
                self._fleet.inventory(node, number, inventory)
            case AgentMessage(reply=reply) if reply is not None:
                self.asking.answered(session, reply)
            case AgentMessage(log_lines=lines) if lines is not None:
                session.asks.lines(lines)
            case AgentMessage(certificate_request=request) if request is not None:
                await self._renew(session, request.csr_pem)
            case AgentMessage(register=Register()):
                raise Refused(f"{node} registered twice on one stream")
            case _:
                self._fleet.heard(node, number)

    def _beat(self, session: AgentSession, heartbeat: Heartbeat) -> None:
        """Apply a heartbeat and answer it with a ping: spread as they are, and without a timer."""
        self._fleet.heartbeat(session.node, session.number, heartbeat)
        session.ping()
        now = self._clock.monotonic()
        if session.clashed is not None and now - session.clashed >= CLASH_SHOWN:
            session.clashed = None
            self._fleet.trouble(session.node, CLASH, None)

    async def _renew(self, session: AgentSession, csr_pem: str) -> None:
        try:
            signed, issued = await self._certificates.renew(session.identity, csr_pem)
        except LlmgwError as error:
            # The agent asks again; its certificate holds for another third of its life.
            logger.warning("not renewed", node=session.node, why=error.message)
            return
        session.renewed(signed.serial, signed.begins, signed.ends)
        session.stream.send(AgentControl(certificate=issued))
        self._fleet.certificate(session.node, signed.begins, signed.ends)

    def _leave(self, session: AgentSession) -> None:
        """Forget a stream, once; a newer one of the same node is left alone."""
        session.asks.end(f"the stream of {session.node} ended")
        if self._sessions.get(session.node) is not session:
            return
        del self._sessions[session.node]
        for kind in (STUCK, CLASH):
            self._fleet.trouble(session.node, kind, None)
        self._fleet.disconnected(session.node, session.number)
        logger.info("agent gone", node=session.node, peer=session.stream.peer, why=session.ended)


def _same_settings(told: NodeSettings, newest: NodeSettings) -> bool:
    return msgspec.structs.replace(told, version=newest.version) == newest
