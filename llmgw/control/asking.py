"""Asking an agent: its features are checked before, term and deadline go along, silence is told."""

import random
from collections.abc import AsyncGenerator, Callable, Mapping

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Refused, TimedOut, Unreachable
from llmgw.base.ids import crockford
from llmgw.base.units import show_seconds
from llmgw.control.agent_session import AgentSession
from llmgw.control.asks import words_of
from llmgw.control.deadline import within
from llmgw.control.fleet import Fleet
from llmgw.control.leader import Leader
from llmgw.model.commands import (
    FEATURE_OF,
    Accepted,
    CancelRequest,
    Command,
    Declined,
    LogLines,
    LogsRead,
    ReadLogs,
    Reply,
    Request,
    WeightsRemoved,
    WeightsState,
)
from llmgw.model.link import AgentControl

Answer = Accepted | LogsRead | WeightsRemoved | WeightsState

SINCE = {
    "shards": "0.1.0",
    "settings": "0.1.0",
    "logs": "0.1.0",
    "remove_weights": "0.2.0",
    "fetch": "0.2.0",
}
"""The first version whose agents answer a feature's requests."""

STUCK = "stuck"
"""The trouble of a node whose agent does not answer."""


class StaleTerm(Refused):
    """Nothing was done: the agent obeys a newer leader, or this control plane no longer leads."""


class LacksFeature(Refused):
    """Nothing was sent: the agent does not answer requests of that kind."""


class Asking:
    """Requests to agents and their answers.

    Args:
        sessions: the live streams by node.
        deadline: seconds that an answer may take, unless a caller says otherwise.
    """

    def __init__(
        self,
        sessions: Mapping[str, AgentSession],
        fleet: Fleet,
        leader: Leader,
        *,
        clock: Clock,
        rng: random.Random,
        deadline: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._fleet = fleet
        self._leader = leader
        self._clock = clock
        self._rng = rng
        self._deadline = deadline

    async def ask(
        self,
        node: str,
        request: Request,
        deadline: float | None = None,
        *,
        term: int | None = None,
    ) -> Answer:
        """Ask an agent and return its answer.

        Args:
            node: whom.
            request: what.
            deadline: seconds; None: as the settings say.
            term: under which it was decided; None: it may be asked under any.

        Raises:
            NotFound: no such node, or the agent knows no such thing.
            Unreachable: its stream is closed, or ended before it answered.
            Refused: the agent said no: in its own words; `LacksFeature` when it does not answer
                such requests; `StaleTerm` when it obeys a newer leader, or this one does not lead
                any more.
            TimedOut: it did not answer in time: it is stuck.
        """
        self._check_leading(term)
        session = self._session(node, request)
        return await self._ask(session, request, self._new_id(), deadline)

    async def follow_logs(
        self, node: str, source: str | None = None, lines: int = 100
    ) -> AsyncGenerator[LogLines, None]:
        """Read a log's last lines and then those that come later, until the caller stops.

        Args:
            node: whose.
            source: a shard, `replica/rank`; None: the agent itself.
            lines: how many of the last ones.

        Raises:
            Unreachable: the stream ended; besides, as `ask`.
        """
        request = ReadLogs(source=source, lines=lines, follow=True)
        session = self._session(node, request)
        request_id = self._new_id()
        inbox = session.asks.inbox(request_id)
        try:
            answer = await self._ask(session, request, request_id, None)
            if isinstance(answer, LogsRead):
                yield LogLines(request=request_id, lines=answer.lines)
            while True:
                yield await inbox.take()
        finally:
            session.asks.close_inbox(request_id)
            if self._sessions.get(node) is session:
                self._send(session, self._new_id(), CancelRequest(request=request_id), 10.0)

    def answered(self, session: AgentSession, reply: Reply) -> None:
        """Take an answer, be it late: an agent that answers is not stuck."""
        session.asks.answer(reply)
        if session.stuck:
            session.stuck = False
            self._fleet.trouble(session.node, STUCK, None)

    def _session(self, node: str, request: Request) -> AgentSession:
        known = self._fleet.node(node)
        if known is None:
            raise NotFound(f"no node {node!r}", hint="list them: llmgw ctl nodes")
        session = self._sessions.get(node)
        if session is None:
            heard = known.last_heard
            ago = show_seconds(self._clock.now() - heard) + " ago" if heard else "never"
            raise Unreachable(
                f"{node} has no stream to this control plane: last heard {ago}",
                hint=f"see whether llmgw agent runs on {node}",
            )
        if not session.answers(type(request)):
            feature = FEATURE_OF[type(request)]
            since = SINCE.get(feature, "a later version")
            raise LacksFeature(
                f"{node} runs {session.version}, which can't {words_of(request)}: "
                f"llmgw {since} has {feature!r}",
                hint=f"upgrade the agent on {node}",
            )
        return session

    async def _ask(
        self, session: AgentSession, request: Request, request_id: str, deadline: float | None
    ) -> Answer:
        seconds = self._deadline() if deadline is None else deadline
        asked = session.asks.open(request_id, request, self._clock.monotonic())
        try:
            self._send(session, request_id, request, seconds)
            reply = await within(self._clock, seconds, asked.answer)
        except TimeoutError as error:
            raise self._stuck(session, asked.words, seconds) from error
        finally:
            session.asks.close(request_id)
        return await self._read(session, reply)

    def _send(
        self, session: AgentSession, request_id: str, request: Request, deadline: float
    ) -> None:
        self._check_leading(None)
        session.stream.send(
            AgentControl(
                command=Command(
                    term=self._leader.term, id=request_id, deadline=deadline, request=request
                )
            )
        )

    def _check_leading(self, term: int | None) -> None:
        if not self._leader.leading:
            raise StaleTerm("this control plane does not lead: it commands nobody")
        if term is not None and not self._leader.leads(term):
            raise StaleTerm(
                f"it was decided under term {term}, and this is term {self._leader.term}",
                hint="it is decided anew",
            )

    def _stuck(self, session: AgentSession, words: str, seconds: float) -> TimedOut:
        said = (
            f"{session.node} ({session.version}) is stuck: asked to {words} "
            f"{show_seconds(seconds)} ago, no answer"
        )
        session.stuck = True
        self._fleet.trouble(
            session.node, STUCK, f"is stuck ({session.version}): does not answer requests"
        )
        return TimedOut(said, hint=f"see its log on {session.node} itself, or restart llmgw agent")

    async def _read(self, session: AgentSession, reply: Reply) -> Answer:
        match reply.answer:
            case None:
                raise Refused(f"{session.node} ({session.version}) gave an answer unknown here")
            case Declined(stale_term=int(term)):
                await self._leader.saw(term)
                raise StaleTerm(
                    f"{session.node} knows a newer leader (term {term})",
                    hint="it is asked again under a higher term",
                )
            case Declined(not_found=True) as declined:
                raise NotFound(f"{session.node}: {declined.words}", hint=declined.hint)
            case Declined() as declined:
                raise Refused(f"{session.node}: {declined.words}", hint=declined.hint)
            case answer:
                return answer

    def _new_id(self) -> str:
        return crockford(self._rng, 12)
