"""Questions about requests in flight, handed to every worker; their answers become one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from llmgw.base.clock import Clock
from llmgw.gateway.frames import Inquiry, Told
from llmgw.gateway.places import Place
from llmgw.model.link import GatewayMessage
from llmgw.model.live import AskRequests, CancelRequests, RequestsEnded, RequestsSeen

WITHIN = 1.0
"""Seconds after which a worker that did not answer is said to be silent."""
OPEN_MOST = 64
"""Questions that wait at once; of more the oldest is answered with what is there."""

Question = AskRequests | CancelRequests


@dataclass(slots=True)
class _Open:
    """One question whose answers are not all there."""

    question: Question
    since: float
    waits_for: set[int]
    told: list[Told] = field(default_factory=list)


class Inquiries:
    """Asks the workers and tells the control plane; it waits for nobody.

    Args:
        gateway: this gateway's id.
        tell: takes an answer.
        clock: how long a question waits.
    """

    def __init__(self, gateway: str, tell: Callable[[GatewayMessage], None], clock: Clock) -> None:
        self._gateway = gateway
        self._tell = tell
        self._clock = clock
        self._open: dict[str, _Open] = {}

    def put(self, question: Question, places: Sequence[Place]) -> None:
        """Ask every worker that there is."""
        there = [place for place in places if place.pid is not None]
        waits_for = {place.number for place in there}
        self._open[question.ask] = _Open(question, self._clock.monotonic(), waits_for)
        inquiry = (
            Inquiry(ask=question) if isinstance(question, AskRequests) else Inquiry(cancel=question)
        )
        for place in there:
            place.send(inquiry)
        self._close_if_whole(question.ask)
        while len(self._open) > OPEN_MOST:
            self._close(next(iter(self._open)))

    def told(self, worker: int, told: Told) -> None:
        """Take a worker's answer; one that came too late is dropped."""
        said = told.seen or told.ended
        known = self._open.get(said.ask) if said is not None else None
        if said is not None and known is not None and worker in known.waits_for:
            known.waits_for.discard(worker)
            known.told.append(told)
            self._close_if_whole(said.ask)

    def ended(self, worker: int) -> None:
        """Wait for a worker no longer that is gone: nothing is in flight there."""
        for ask, known in list(self._open.items()):
            known.waits_for.discard(worker)
            self._close_if_whole(ask)

    def look(self) -> None:
        """Answer what waits for too long with what is there."""
        now = self._clock.monotonic()
        for ask, known in list(self._open.items()):
            if now - known.since >= WITHIN:
                self._close(ask)

    def _close_if_whole(self, ask: str) -> None:
        if ask in self._open and not self._open[ask].waits_for:
            self._close(ask)

    def _close(self, ask: str) -> None:
        known = self._open.pop(ask)
        if isinstance(known.question, AskRequests):
            seen = _seen(known.question, known.told)
            named = msgspec.structs.replace(
                seen, gateway=self._gateway, silent=len(known.waits_for)
            )
            self._tell(GatewayMessage(requests_seen=named))
            return
        ids = tuple(one for told in known.told if told.ended for one in told.ended.ids)
        ended = RequestsEnded(gateway=self._gateway, ask=ask, ids=ids, silent=len(known.waits_for))
        self._tell(GatewayMessage(requests_ended=ended))


def _seen(ask: AskRequests, told: Sequence[Told]) -> RequestsSeen:
    """Return what workers see, as one worker would tell it."""
    parts = [one.seen for one in told if one.seen is not None]
    every = [request for part in parts for request in part.requests]
    every.sort(key=lambda one: one.age, reverse=not ask.newest)
    return RequestsSeen(
        gateway="",
        ask=ask.ask,
        total=sum(part.total for part in parts),
        matching=sum(part.matching for part in parts),
        requests=tuple(every[: max(0, ask.limit)]),
    )
