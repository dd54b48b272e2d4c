"""What every store must do with the lease, and those do that several have open, or only one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec
import pytest

from llmgw.base.errors import Conflict, Refused
from llmgw.store.interface import Claim, Lease, Store
from tests.flow.store import samples
from tests.flow.store.conformance import Place, refused

TTL = 5.0


def claim(server: str = "cp-1", boot: str = "b1") -> Claim:
    return Claim(server=server, boot=boot, addresses=(f"{server}:7442",))


async def led(store: Store, one: Claim | None = None) -> Lease:
    """Acquire the lease, which has to be free."""
    mine = one or claim()
    lease = await store.acquire_lease(mine, ttl=TTL)
    assert lease.claim == mine
    return lease


class LeaseConformance:
    """Of one control plane that leads; what several do is in `SharedConformance`."""

    async def test_nobody_leads_a_store_that_was_only_opened(self, store: Store):
        assert await store.lease() is None

    async def test_each_leadership_has_a_higher_term_whatever_was_opened_between(
        self, place: Place
    ):
        terms = []
        for holder in ("a", "b", "c"):
            store = place.store()
            await store.open(holder)
            if holder != "b":
                lease = await led(store, claim(holder))
                terms.append(lease.term)
                await store.release_lease(lease)
            await store.close()
        assert terms == [1, 2]

    async def test_whoever_leads_is_told_to_whoever_asks_until_it_gives_up(self, store: Store):
        lease = await led(store)
        shown = await store.lease()
        assert shown is not None
        assert (shown.claim, shown.term) == (claim(), lease.term)
        await store.release_lease(lease)
        await store.release_lease(lease)
        assert await store.lease() is None

    async def test_a_renewal_keeps_the_term_and_may_say_another_address(self, store: Store):
        lease = await led(store)
        moved = msgspec.structs.replace(
            lease, claim=Claim(server="cp-1", boot="b1", addresses=("elsewhere:1",))
        )
        renewed = await store.renew_lease(moved, ttl=TTL)
        assert renewed is not None
        assert (renewed.term, renewed.claim.addresses) == (lease.term, ("elsewhere:1",))
        now = await store.lease()
        assert now is not None
        assert now.claim == renewed.claim

    async def test_who_acquires_what_it_has_leads_anew(self, store: Store):
        first = await led(store)
        second = await led(store)
        assert second.term == first.term + 1
        now = await store.renew_lease(first, ttl=TTL)
        assert now is not None
        assert now.term == second.term

    async def test_a_lease_that_was_given_up_is_not_renewed(self, store: Store):
        lease = await led(store)
        await store.release_lease(lease)
        assert await store.renew_lease(lease, ttl=TTL) is None

    async def test_a_term_that_was_seen_is_passed_and_stays_passed(self, place: Place):
        store = place.store()
        await store.open("a")
        lease = await led(store)
        raised = await store.take_term(lease, 7)
        assert raised.term == 8
        assert (await store.take_term(raised, 3)).term == 8
        assert (await store.take_term(raised, 7)).term == 8
        assert "no longer leads under term 1" in await refused(store.take_term(lease, 9), Conflict)
        renewed = await store.renew_lease(raised, ttl=TTL)
        assert renewed is not None
        assert renewed.term == 8
        await store.release_lease(renewed)
        await store.close()
        again = place.store()
        await again.open("b")
        assert (await led(again, claim("b"))).term == 9
        await again.close()

    async def test_a_term_that_no_counting_reaches_is_refused(self, store: Store):
        lease = await led(store)
        assert "no term" in await refused(store.take_term(lease, 2**63), Refused)


class SharedPlace(Place, Protocol):
    """Where the data of a store lies that several may have open."""

    async def pass_time(self, seconds: float) -> None:
        """Let that much time pass by the store's own clock."""
        ...


class SharedConformance:
    """Of a store that several control planes have open, of which one leads by the lease."""

    @pytest.fixture
    async def second(self, place: SharedPlace) -> AsyncIterator[Store]:
        store = place.store()
        await store.open("second")
        yield store
        await store.close()

    async def test_the_others_are_told_who_leads_and_for_how_long(
        self, store: Store, second: Store, place: SharedPlace
    ):
        lease = await led(store)
        await place.pass_time(1.0)
        theirs = await second.acquire_lease(claim("cp-2"), ttl=TTL)
        assert (theirs.claim, theirs.term) == (claim(), lease.term)
        assert theirs.left is not None
        assert 0 < theirs.left <= TTL - 1.0

    async def test_of_many_at_once_one_leads(self, store: Store, second: Store):
        leases = await asyncio.gather(
            *(
                where.acquire_lease(claim(f"cp-{number}"), ttl=TTL)
                for number, where in enumerate((store, second) * 5)
            )
        )
        assert len({(lease.claim.server, lease.term) for lease in leases}) == 1

    async def test_a_lease_that_was_not_renewed_is_anothers_under_a_higher_term(
        self, store: Store, second: Store, place: SharedPlace
    ):
        lease = await led(store)
        await place.pass_time(TTL)
        over = await second.lease()
        assert over is not None
        assert (over.claim, over.left) == (claim(), 0)
        theirs = await led(second, claim("cp-2"))
        assert theirs.term == lease.term + 1
        now = await store.renew_lease(lease, ttl=TTL)
        assert now is not None
        assert now.claim == claim("cp-2")
        await store.release_lease(lease)
        assert await store.lease() is not None

    async def test_who_renews_in_time_keeps_it(
        self, store: Store, second: Store, place: SharedPlace
    ):
        lease = await led(store)
        for _ in range(5):
            await place.pass_time(TTL * 0.6)
            renewed = await store.renew_lease(lease, ttl=TTL)
            assert renewed is not None
            assert renewed.term == lease.term
            theirs = await second.acquire_lease(claim("cp-2"), ttl=TTL)
            assert theirs.claim == claim()

    async def test_who_was_late_keeps_it_when_nobody_took_it(
        self, store: Store, place: SharedPlace
    ):
        lease = await led(store)
        await place.pass_time(TTL * 3)
        renewed = await store.renew_lease(lease, ttl=TTL)
        assert renewed is not None
        assert (renewed.claim, renewed.term) == (claim(), lease.term)

    async def test_what_is_given_up_is_taken_at_once(self, store: Store, second: Store):
        await store.release_lease(await led(store))
        assert (await led(second, claim("cp-2"))).term == 2

    async def test_the_same_id_started_anew_is_another(self, store: Store, second: Store):
        await led(store)
        theirs = await second.acquire_lease(claim(boot="b2"), ttl=TTL)
        assert theirs.claim.boot == "b1"

    async def test_who_does_not_lead_changes_nothing_and_is_told_who_does(
        self, store: Store, second: Store
    ):
        await led(store)
        await second.acquire_lease(claim("cp-2"), ttl=TTL)
        put = second.put_settings(samples.settings(stopped=True), expected=0, actor="ana", at=1.0)
        assert "cp-1 leads under term 1" in await refused(put, Refused)
        for call in (
            second.put_model(samples.model(), expected=0, actor="ana", at=1.0),
            second.put_key(samples.key(), actor="ana", at=1.0),
            second.put_token(samples.token(), actor="ana", at=1.0),
            second.put_join_token(samples.join_token(), actor="ana", at=1.0),
            second.put_node(samples.node()),
            second.set_wish("gpu-01", "cordoned", actor="ana", at=1.0),
            second.remove_node("gpu-01", actor="ana", at=1.0),
            second.apply_usage(samples.report(1, samples.totals(1)), at=1.0),
        ):
            await refused(call, Refused)
        assert (await store.settings()).version == 0
        assert await store.audit() == ()
        written = await store.put_settings(
            samples.settings(stopped=True), expected=0, actor="ana", at=1.0
        )
        assert await second.settings() == written

    async def test_who_lost_the_lease_changes_nothing_any_more(
        self, store: Store, second: Store, place: SharedPlace
    ):
        await led(store)
        await place.pass_time(TTL)
        await led(second, claim("cp-2"))
        late = store.put_settings(samples.settings(stopped=True), expected=0, actor="ana", at=1.0)
        assert "cp-2 leads under term 2" in await refused(late, Refused)

    async def test_events_certificates_and_secrets_are_recorded_by_whoever_has_them(
        self, store: Store, second: Store
    ):
        await led(store)
        await second.put_certificate(samples.certificate())
        await second.add_event(samples.event("e1"))
        assert await second.secret("engines", b"one") == b"one"
        assert [event.id for event in await store.events(since=0.0)] == ["e1"]


class ExclusiveConformance:
    """Of a store that one control plane has open at a time."""

    async def test_a_second_opener_is_refused_with_the_holders_name_and_what_to_do(
        self, store: Store, place: Place
    ):
        second = place.store()
        with pytest.raises(Refused) as caught:
            await second.open("b")
        assert "'first'" in caught.value.message
        assert "pid" in caught.value.message
        assert caught.value.hint
        await second.close()
        assert (await store.settings()).version == 0

    async def test_whoever_waited_gets_the_store_when_the_holder_let_go(self, place: Place):
        first, second = place.store(), place.store()
        await first.open("a")
        lease = await led(first)
        await refused(second.open("b"), Refused)
        await first.close()
        await second.open("b")
        assert (await led(second, claim("b"))).term == lease.term + 1
        await second.close()

    async def test_a_lease_lasts_as_long_as_the_store_is_open(self, store: Store):
        assert (await led(store)).left is None
