"""Who leads, under which term, and when it may decide.

The store's lease decides: one control plane holds it and renews it, the others stand by and ask for
it. Its term rises with each leadership and above every term that an agent has seen: a command of an
earlier leader is refused by the agents. A leader that could not renew in time stops by its own
clock, before the store gives the lease to another.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, LlmgwError, Refused, Unreachable
from llmgw.base.units import show_seconds
from llmgw.control.deadline import within
from llmgw.model.link import Goodbye
from llmgw.store.interface import Claim, Lease, Store

logger = log.get(__name__)

T = TypeVar("T")

TTL = 5.0
"""Seconds that a lease lasts unless it is renewed: in a bit more a killed leader is replaced."""
ACTS_FOR = 2 / 3
"""Of a lease's time: for so long after it began to renew a leader acts without having renewed."""
ASKS_EACH = 1 / 3
"""Of a lease's time: how often it is renewed, or asked for by those that stand by."""
SOON = 0.1
"""Seconds that lie at least between two tries to renew."""
ANSWERS_IN = 30.0
"""Seconds that the store may take for what is not urgent."""

_ENDING = "does not lead: it is ending"


class Leader:
    """This control plane's leadership, and its settling after it won it (REC-2).

    Invariant: `leading` is true only while the lease is held by this control plane's own clock, and
    all that is durable was loaded after it was taken.

    Args:
        store: its lease is the leadership.
        clock: by it a lease is held, and the settling period is measured.
        claim: who this is, and where it is reached now.
        ttl: seconds that a lease lasts.
    """

    def __init__(
        self, store: Store, clock: Clock, claim: Callable[[], Claim], *, ttl: float = TTL
    ) -> None:
        self._store = store
        self._clock = clock
        self._claim = claim
        self._ttl = ttl
        self._lease: Lease | None = None
        self._until = -math.inf
        self._loaded = False
        self._since: float | None = None
        self._settled = False
        self.ending = False
        """It has resigned and will not lead again."""
        self._raising = asyncio.Lock()
        self._won: list[Callable[[], Awaitable[None]]] = []
        self._lost: list[Callable[[str], None]] = []
        self.changed = asyncio.Event()
        """Set when leadership was won or lost."""
        self.other: Lease | None = None
        """The lease of whoever else led when the store was last asked."""
        self.term = 0
        """Of this control plane's last leadership; 0 before its first."""

    @property
    def leading(self) -> bool:
        """Say whether this control plane decides and commands."""
        return self._loaded and self._clock.monotonic() < self._until

    def leads(self, term: int) -> bool:
        """Say whether what was decided under a term may still be done."""
        return self.leading and term == self.term

    def on_won(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Await `listener` when the lease was taken: until it returns, nothing is decided."""
        self._won.append(listener)

    def on_lost(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the reason when leadership was lost; it must not raise."""
        self._lost.append(listener)

    def elsewhere(self) -> Refused:
        """Return what whoever asks for a change is told by a control plane that does not lead."""
        here = self._claim().server
        if self.other is None:
            return Refused(
                f"{here} does not lead, and nobody else does now", hint="try again in some seconds"
            )
        claim = self.other.claim
        return Refused(
            f"{here} stands by: {claim.server} leads under term {self.other.term}",
            hint=f"ask {claim.server}",
        )

    def goodbye(self) -> Goodbye:
        """Return what a peer is told that dialled a control plane that does not lead."""
        addresses = () if self.other is None else self.other.claim.addresses
        return Goodbye(reason=self.elsewhere().message, leader=addresses[0] if addresses else None)

    def period(self) -> float:
        """Return the seconds until the lease has to be renewed or asked for again.

        A leader that could not renew tries again in half of the time that it has left.
        """
        usual = self._ttl * ASKS_EACH
        if not self._loaded:
            return usual
        left = max(0.0, self._until - self._clock.monotonic())
        return min(usual, left / 2 if left / 2 > SOON else left)

    async def keep(self) -> str:
        """Renew the lease, or take it when nobody holds it; return how that stands.

        Raises:
            LlmgwError: the store was not reached; this control plane leads on until its time ends.
        """
        if self.ending:
            return _ENDING
        if self._lease is not None:
            return await self._renew(self._lease)
        return await self._acquire()

    async def saw(self, term: int) -> None:
        """Rise above a term that an agent reported: it is older than this store, or a copy.

        Or another leads, and this one learns it here.
        """
        async with self._raising:
            if self._lease is None or term <= self.term:
                return
            before = self.term
            try:
                self._lease = await self._asked(self._store.take_term(self._lease, term))
            except Conflict as error:
                self._lose(error.message)
                return
            self.term = self._lease.term
        logger.warning("an agent knows a higher term", seen=term, before=before, now=self.term)

    def resign(self) -> None:
        """Decide and command nothing any more; the lease stays until `release`."""
        self.ending, self._loaded = True, False
        self._until = -math.inf
        self.changed.set()

    async def release(self) -> None:
        """Give the lease up, so that another control plane takes over at once."""
        self.resign()
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._asked(self._store.release_lease(lease))

    def settled(self, waiting_for: tuple[str, ...], settling: float) -> bool:
        """Say whether enough is known to start and stop things; once true it stays so for the term.

        Args:
            waiting_for: known nodes that have not reported yet.
            settling: seconds after which they are not waited for any more.
        """
        if self._since is None or not self.leading:
            return False
        if not self._settled:
            age = self._clock.monotonic() - self._since
            self._settled = not waiting_for or age >= settling
            if self._settled:
                logger.info(
                    "settled",
                    after=show_seconds(age),
                    missing=", ".join(waiting_for) or "nobody",
                )
        return self._settled

    async def _acquire(self) -> str:
        claim, began = self._claim(), self._clock.monotonic()
        lease = await self._asked(self._store.acquire_lease(claim, ttl=self._ttl))
        if not lease.claim.same(claim):
            self.other = lease
            return f"stands by: {lease.claim.server} leads under term {lease.term}"
        self._lease, self.other, self.term = lease, None, lease.term
        self._hold(lease, began)
        if not self.ending:
            await self._load(lease)
        return _ENDING if self.ending else f"leads under term {self.term}"

    async def _load(self, lease: Lease) -> None:
        """Let everything durable be read anew; a leader that can't gives the lease back."""
        try:
            await within(self._clock, self._ttl * ACTS_FOR, self._tell_won())
        except (LlmgwError, TimeoutError) as error:
            self._lease, self._until = None, -math.inf
            await self._asked(self._store.release_lease(lease))
            if isinstance(error, LlmgwError):
                raise
            raise Unreachable("the store did not answer while it was read") from error
        if self.ending:
            return
        self._loaded, self._settled = True, False
        self._since = self._clock.monotonic()
        self.changed.set()
        logger.info("leads", term=self.term)

    async def _tell_won(self) -> None:
        for listener in self._won:
            await listener()

    async def _renew(self, lease: Lease) -> str:
        claim, began = self._claim(), self._clock.monotonic()
        renewed = msgspec.structs.replace(lease, claim=claim)
        try:
            asked = self._store.renew_lease(renewed, ttl=self._ttl)
            now = await self._asked(asked, self._ttl * ASKS_EACH)
        except LlmgwError:
            if not self.leading:
                self._lose("its lease could not be renewed in time")
            raise
        if now is None or not now.claim.same(claim):
            self.other = now
            who = "nobody" if now is None else f"{now.claim.server} under term {now.term}"
            self._lose(f"{who} leads now")
            return f"stands by: {who} leads"
        if self.ending:
            return _ENDING
        if not self.leading:
            # Too late by its own clock: it has stopped already, and begins anew under a new term.
            self._lose("its lease was renewed too late")
            return await self._acquire()
        if now.term == lease.term:
            self._hold(now, began)
            if self._lease is lease:  # else `saw` has raised it meanwhile
                self._lease = now
        return f"leads under term {self.term}"

    def _hold(self, lease: Lease, began: float) -> None:
        """Act for as long as the store surely gives the lease to nobody else."""
        if not self.ending:
            self._until = math.inf if lease.left is None else began + self._ttl * ACTS_FOR

    def _lose(self, why: str) -> None:
        was, self._loaded = self._loaded, False
        self._lease, self._until, self._since = None, -math.inf, None
        if was:
            logger.warning("does not lead any more", term=self.term, why=why)
            self.changed.set()
            for listener in self._lost:
                listener(why)

    async def _asked(self, call: Awaitable[T], limit: float = ANSWERS_IN) -> T:
        try:
            return await within(self._clock, limit, call)
        except TimeoutError as error:
            raise Unreachable(f"the store did not answer within {limit:g} s") from error
