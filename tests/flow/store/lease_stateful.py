"""A model of leadership that any shared store is compared with: several claims, and time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from llmgw.base.errors import Conflict
from llmgw.store.interface import Claim, Lease, Store
from tests.flow.store.lease_conformance import TTL, SharedPlace, claim

CLAIMS = tuple(claim(f"cp-{number}") for number in (1, 2, 3))
who = st.sampled_from(CLAIMS)


class LeaseAgainstModel(RuleBasedStateMachine):
    """Give `new_place` in a subclass."""

    def new_place(self) -> SharedPlace:
        """Return a fresh place for this run."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.place = self.new_place()
        self.stores: dict[str, Store] = {}
        for one in CLAIMS:
            self.stores[one.server] = self.place.store()
            self.run(self.stores[one.server].open(one.server))
        self.now = 0.0
        self.until = 0.0
        self.term = 0
        self.holder: Claim | None = None
        self.leases: dict[str, Lease] = {}
        """What each was given last."""

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(call)

    @rule(seconds=st.sampled_from([0.5, TTL - 0.5, TTL]))
    def time(self, seconds: float) -> None:
        self.run(self.place.pass_time(seconds))
        self.now += seconds

    @rule(one=who)
    def acquire(self, one: Claim) -> None:
        lease = self.run(self.stores[one.server].acquire_lease(one, ttl=TTL))
        if self.holder in {None, one} or self.now >= self.until:
            self.term, self.holder, self.until = self.term + 1, one, self.now + TTL
            self.leases[one.server] = lease
        assert (lease.claim, lease.term) == (self.holder, self.term)

    @rule(one=who)
    def renew(self, one: Claim) -> None:
        mine = self.leases.get(one.server)
        if mine is None:
            return
        lease = self.run(self.stores[one.server].renew_lease(mine, ttl=TTL))
        if self.holder == one and mine.term == self.term:
            self.until = self.now + TTL
        if self.holder is None:
            assert lease is None
        else:
            assert (lease.claim, lease.term) == (self.holder, self.term)

    @rule(one=who, seen=st.integers(0, 20))
    def raise_term(self, one: Claim, seen: int) -> None:
        mine = self.leases.get(one.server)
        if mine is None:
            return
        call = self.stores[one.server].take_term(mine, seen)
        if self.holder != one or mine.term != self.term:
            try:
                self.run(call)
            except Conflict:
                return
            raise AssertionError("a lease that was lost raised the term")
        self.term = max(self.term, seen + 1)
        self.leases[one.server] = self.run(call)
        assert self.leases[one.server].term == self.term

    @rule(one=who)
    def release(self, one: Claim) -> None:
        mine = self.leases.get(one.server)
        if mine is None:
            return
        self.run(self.stores[one.server].release_lease(mine))
        if self.holder == one and mine.term == self.term:
            self.holder = None

    @invariant()
    def all_are_told_the_same(self) -> None:
        for store in self.stores.values():
            lease = self.run(store.lease())
            assert (lease is None) == (self.holder is None)
            if lease is not None:
                assert (lease.claim, lease.term) == (self.holder, self.term)
                assert lease.left == max(0.0, self.until - self.now)

    def teardown(self) -> None:
        for store in self.stores.values():
            self.run(store.close())
        self.loop.close()
