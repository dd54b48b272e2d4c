"""Who leads: the one row that decides it, by the store's own clock."""

import math
from collections.abc import Callable

import msgspec

from llmgw.store.interface import Claim, Lease
from llmgw.store.rules.terms import above, is_in_force, lost


class LeaseRow:
    """The lease that stands, until when, and the highest term ever given.

    Args:
        clock: the store's own seconds; None: a lease lasts until it is released.
    """

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._term = 0
        self._lease: Lease | None = None
        self._until = -math.inf

    def now(self) -> Lease | None:
        """Return the lease that stands, be its time over or not; None: nobody's."""
        if self._lease is None or self._clock is None:
            return self._lease
        return msgspec.structs.replace(self._lease, left=max(0.0, self._until - self._clock()))

    def acquire(self, claim: Claim, ttl: float) -> Lease:
        """Give the lease to a claim when it is free; return the one that stands."""
        now = self.now()
        if now is not None and not now.claim.same(claim) and now.left != 0:
            return now
        self._term = above(self._term, self._term)
        return self._stand(Lease(claim=claim, term=self._term), ttl)

    def renew(self, lease: Lease, ttl: float) -> Lease | None:
        """Let a lease last longer, when it stands; return the one that does."""
        return self._stand(lease, ttl) if is_in_force(lease, self._lease) else self.now()

    def release(self, lease: Lease) -> None:
        """Free the lease, when it stands."""
        if is_in_force(lease, self._lease):
            self._lease = None

    def raise_term(self, lease: Lease, seen: int) -> Lease:
        """Raise the term of a lease that stands above one that was seen."""
        now = self.now()
        if now is None or not is_in_force(lease, now):
            raise lost(lease, now)
        self._term = above(self._term, seen)
        self._lease = msgspec.structs.replace(now, term=self._term)
        return self._lease

    def _stand(self, lease: Lease, ttl: float) -> Lease:
        timed = self._clock is not None
        self._lease = msgspec.structs.replace(lease, left=ttl if timed else None)
        self._until = math.inf if self._clock is None else self._clock() + ttl
        return self._lease
