"""Asking gateways for their requests in flight, and having some of them ended."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from llmgw.base.clock import Clock
from llmgw.control.deadline import within
from llmgw.control.gateway_session import GatewaySession
from llmgw.model.gateway import Gateway
from llmgw.model.link import GatewayControl, GatewayMessage
from llmgw.model.live import (
    REQUESTS,
    AskRequests,
    CancelRequests,
    RequestsEnded,
    RequestsSeen,
    Silent,
)

ANSWERS_WITHIN = 3.0
"""Seconds that a gateway has: its parent waits one for its workers."""

Answer = RequestsSeen | RequestsEnded


@dataclass(frozen=True, slots=True)
class Answers:
    """What gateways answered to one question, by gateway, and who did not."""

    by_gateway: Mapping[str, Answer]
    silent: tuple[Silent, ...]


@dataclass(slots=True)
class _Waiting:
    """One question and who still has to answer it."""

    waits_for: set[str]
    whole: "asyncio.Future[None]"
    answers: dict[str, Answer] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)


class LiveRequests:
    """Questions on their way to the gateways. Nothing is kept of what they answer.

    Args:
        sessions: the live streams by gateway.
        known: every gateway that was seen, those that are away too.
        clock: how long they are waited for.
    """

    def __init__(
        self,
        sessions: Mapping[str, GatewaySession],
        known: Callable[[], Iterable[Gateway]],
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._known = known
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._asked = 0

    async def seen(self, ask: AskRequests, gateway: str | None = None) -> Answers:
        """Return what is in flight.

        Args:
            ask: for which; its `ask` is set here.
            gateway: only this one; None: all.
        """
        ask = msgspec.structs.replace(ask, ask=self._new_id())
        return await self._put(ask.ask, GatewayControl(ask_requests=ask), gateway)

    async def end(self, ids: tuple[str, ...], words: str) -> Answers:
        """End requests wherever they are; `words` are what their clients are told."""
        cancel = CancelRequests(ask=self._new_id(), ids=ids, words=words)
        return await self._put(cancel.ask, GatewayControl(cancel_requests=cancel), None)

    def answered(self, gateway: str, message: GatewayMessage) -> None:
        """Take a gateway's answer; one that came too late is dropped."""
        answer = message.requests_seen or message.requests_ended
        waiting = self._waiting.get(answer.ask) if answer is not None else None
        if answer is not None and waiting is not None and gateway in waiting.waits_for:
            waiting.answers[gateway] = answer
            self._less(waiting, gateway)

    def left(self, gateway: str) -> None:
        """Wait no longer for a gateway that is gone."""
        for waiting in self._waiting.values():
            if gateway in waiting.waits_for:
                waiting.left.add(gateway)
                self._less(waiting, gateway)

    async def _put(self, ask: str, message: GatewayControl, only: str | None) -> Answers:
        asked = [
            (name, session)
            for name, session in self._sessions.items()
            if only in {None, name} and REQUESTS in (session.register.features or ())
        ]
        waiting = _Waiting(
            waits_for={name for name, _ in asked}, whole=asyncio.get_running_loop().create_future()
        )
        self._waiting[ask] = waiting
        try:
            for _, session in asked:
                session.stream.send(message)
            if asked:
                await within(self._clock, ANSWERS_WITHIN, waiting.whole)
        except TimeoutError:
            pass  # those that did not answer are told below
        finally:
            self._waiting.pop(ask, None)
        return Answers(by_gateway=waiting.answers, silent=tuple(self._silent(waiting, only)))

    def _silent(self, waiting: _Waiting, only: str | None) -> Iterable[Silent]:
        """Yield the gateways of which not all is known, by name, each with the reason."""
        for one in sorted(self._known(), key=lambda gateway: gateway.id):
            if only not in {None, one.id}:
                continue
            words = self._why(waiting, one)
            if words is not None:
                yield Silent(gateway=one.id, words=words)

    def _why(self, waiting: _Waiting, gateway: Gateway) -> str | None:
        answer = waiting.answers.get(gateway.id)
        if answer is not None:
            return f"{answer.silent} of its workers did not answer" if answer.silent else None
        if gateway.id in waiting.waits_for:
            return f"it did not answer within {ANSWERS_WITHIN:g} s"
        if gateway.id in waiting.left or not gateway.connected:
            return "it is not connected"
        return f"it runs {gateway.version or 'an older version'}, which can't tell of its requests"

    def _less(self, waiting: _Waiting, gateway: str) -> None:
        waiting.waits_for.discard(gateway)
        if not waiting.waits_for and not waiting.whole.done():
            waiting.whole.set_result(None)

    def _new_id(self) -> str:
        self._asked += 1
        return f"q{self._asked}"
