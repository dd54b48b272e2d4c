"""The feed as gateways follow it: routes, keys and settings go down, how far each is comes up."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import Refused, Unreachable
from llmgw.control.deadline import within
from llmgw.control.feed import Feed
from llmgw.control.gateway_session import GatewaySession
from llmgw.model.feed import KEYS, ROUTES, SETTINGS, Batch, Follow, Position
from llmgw.model.link import GatewayControl

logger = log.get(__name__)

FOLLOWED = frozenset({ROUTES, KEYS, SETTINGS})
"""What a gateway may follow: it needs nothing else, so it is told nothing else."""


class GatewayFeed:
    """Sends each gateway what it follows, and knows which of them serve by it.

    Args:
        feed: what is followed.
        clock: how long is waited for a gateway is measured by it.
        live: the sessions of the gateways that are connected.
    """

    def __init__(
        self, feed: Feed, clock: Clock, live: Callable[[], Iterable[GatewaySession]]
    ) -> None:
        self._feed = feed
        self._clock = clock
        self._live = live
        self._moved = asyncio.Event()

    async def follow(self, session: GatewaySession, follow: Follow) -> None:
        """Send a gateway what it asks for, in place of what it followed before.

        Raises:
            Refused: it asks for more than a gateway may follow.
        """
        refused = sorted(set(follow.topics) - FOLLOWED)
        if refused:
            raise Refused(f"a gateway follows {', '.join(sorted(FOLLOWED))}; not {refused[0]!r}")
        await self.end(session)
        task = asyncio.create_task(self._send_batches(session, follow))
        task.add_done_callback(lambda done: _end_when_failed(session, done))
        session.following = task

    async def end(self, session: GatewaySession) -> None:
        """Send a gateway nothing more."""
        task = session.following
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def reached(self, session: GatewaySession, position: Position) -> None:
        """Note up to which change of the feed all workers of a gateway know."""
        if position.epoch == self._feed.epoch and session.reached is not None:
            session.reached = position.number
            self._moved.set()

    def left(self) -> None:
        """Note that a gateway is connected no more: it is not waited for."""
        self._moved.set()

    async def caught_up(self, limit: float) -> bool:
        """Wait until every connected gateway serves by what the feed says now; see `Gateways`."""
        try:
            await within(self._clock, limit, self._all_at(self._feed.number))
        except TimeoutError:
            return False
        return True

    async def _all_at(self, number: int) -> None:
        while any(one.reached is not None and one.reached < number for one in self._live()):
            self._moved.clear()
            await self._moved.wait()

    async def _send_batches(self, session: GatewaySession, follow: Follow) -> None:
        with self._feed.follow(follow.topics, follow.position) as follower:
            async for batch in follower:
                session.stream.send(GatewayControl(batch=_for_gateway(batch)))


def _for_gateway(batch: Batch) -> Batch:
    """Leave out the settings that are not a gateway's."""
    changes = tuple(c for c in batch.changes if c.topic != SETTINGS or c.id == "gateway")
    return msgspec.structs.replace(batch, changes=changes)


def _end_when_failed(session: GatewaySession, task: "asyncio.Task[None]") -> None:
    """A gateway that is told nothing more must not believe that nothing changes."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("following failed", gateway=session.identity.id, error=str(error))
        session.stream.fail(Unreachable(f"batches can't be sent: {error}"))
