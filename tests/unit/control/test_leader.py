"""Who leads: kept by renewing, lost in time, and a term that rises for no other reason."""

import asyncio

import pytest

from llmgw.base.errors import Unreachable
from llmgw.control.leader import TTL, Leader
from llmgw.store.interface import Claim
from llmgw.store.memory import Memory, MemoryStore
from tests.fakes.clock import FakeClock


class Head:
    """A control plane's leadership alone, over a store that may be out of reach."""

    def __init__(self, memory: Memory, clock: FakeClock, name: str = "cp-1") -> None:
        self.away = False
        self.store = MemoryStore(memory, reach=self._reach)
        self.leader = Leader(self.store, clock, lambda: Claim(server=name, boot=f"{name}/1"))
        self.won: list[int] = []
        self.lost: list[str] = []
        self.leader.on_won(self._won)
        self.leader.on_lost(self.lost.append)
        self.name = name

    async def keep(self) -> str:
        return await self.leader.keep()

    async def open(self) -> "Head":
        await self.store.open(self.name)
        return self

    def _reach(self) -> None:
        if self.away:
            raise Unreachable("the store is away")

    async def _won(self) -> None:
        await self.store.models()
        assert not self.leader.leading
        self.won.append(self.leader.term)


@pytest.fixture
def memory(clock: FakeClock) -> Memory:
    return Memory(clock)


@pytest.fixture
async def head(memory: Memory, clock: FakeClock) -> Head:
    return await Head(memory, clock).open()


@pytest.fixture
async def other(memory: Memory, clock: FakeClock) -> Head:
    return await Head(memory, clock, "cp-2").open()


@pytest.fixture
async def leader(head: Head) -> Leader:
    await head.keep()
    return head.leader


@pytest.mark.parametrize(("seen", "above"), [(-1, 0), (0, 0), (1, 2), (40, 41)])
async def test_only_a_term_above_its_own_raises_it(leader: Leader, seen: int, above: int) -> None:
    before = leader.term
    await leader.saw(before + seen)
    assert leader.term == before + above
    assert leader.leading


async def test_it_settles_when_all_reported_or_when_the_period_is_over(
    head: Head, clock: FakeClock
) -> None:
    await head.keep()
    leader = head.leader
    assert not leader.settled(("gpu-01",), 4.0)
    await clock.advance(2.0)
    await head.keep()
    await clock.advance(1.9)
    assert not leader.settled(("gpu-01",), 4.0)
    await clock.advance(0.1)
    assert leader.settled(("gpu-01",), 4.0)
    assert leader.settled(("gpu-01", "gpu-02"), 3000.0)


async def test_nobody_awaited_is_settled_at_once_and_who_resigned_never_is(leader: Leader) -> None:
    assert leader.settled((), 30.0)
    leader.resign()
    assert not leader.settled((), 0.0)
    assert not leader.leading


async def test_one_leads_and_the_other_says_who(head: Head, other: Head) -> None:
    assert await head.keep() == "leads under term 1"
    assert await other.keep() == "stands by: cp-1 leads under term 1"
    assert (head.leader.leading, other.leader.leading) == (True, False)
    assert other.leader.elsewhere().message == "cp-2 stands by: cp-1 leads under term 1"
    assert other.leader.goodbye().leader is None
    assert other.won == []


async def test_who_renews_leads_on_under_its_term(head: Head, other: Head, clock: FakeClock):
    await head.keep()
    for _ in range(20):
        await clock.advance(head.leader.period())
        assert await head.keep() == "leads under term 1"
        assert (await other.keep()).startswith("stands by: cp-1")
    assert clock.monotonic() > 3 * TTL
    assert head.won == [1]


async def test_who_can_not_renew_stops_by_its_own_clock_before_another_leads(
    head: Head, other: Head, clock: FakeClock
):
    await head.keep()
    head.away = True
    led = []
    for _ in range(60):
        await clock.advance(TTL / 30)
        if head.leader.leading:
            led.append(clock.monotonic())
        await other.keep()
        assert not (head.leader.leading and other.leader.leading)
    assert TTL * 0.6 < led[-1] < TTL * 2 / 3
    assert other.won == [2]


async def test_a_store_that_is_away_for_a_moment_costs_no_leadership(head: Head, clock: FakeClock):
    await head.keep()
    head.away = True
    await clock.advance(head.leader.period())
    with pytest.raises(Unreachable):
        await head.keep()
    assert head.leader.leading
    assert head.leader.period() <= TTL * 2 / 3 - TTL / 3
    head.away = False
    assert await head.keep() == "leads under term 1"
    assert head.lost == []


async def test_a_loss_is_told_once_and_with_it_who_leads(head: Head, other: Head, clock: FakeClock):
    await head.keep()
    await clock.advance(TTL)
    await other.keep()
    assert await head.keep() == "stands by: cp-2 under term 2 leads"
    assert head.lost == ["cp-2 under term 2 leads now"]
    assert await head.keep() == "stands by: cp-2 leads under term 2"
    assert len(head.lost) == 1


async def test_who_renewed_too_late_begins_anew_under_a_new_term(head: Head, clock: FakeClock):
    await head.keep()
    await clock.advance(TTL * 0.9)
    assert not head.leader.leading
    assert await head.keep() == "leads under term 2"
    assert (head.won, len(head.lost)) == ([1, 2], 1)
    assert not head.leader.leads(1)
    assert head.leader.leads(2)


async def test_a_lease_given_back_is_taken_at_once(head: Head, other: Head):
    await head.keep()
    await head.leader.release()
    assert await other.keep() == "leads under term 2"
    assert await head.keep() == "does not lead: it is ending"


@pytest.mark.parametrize("held", [False, True])
async def test_who_resigns_while_the_store_answers_does_not_lead_by_that_answer(
    head: Head, other: Head, clock: FakeClock, held: bool
):
    if held:
        await head.keep()
    asked = asyncio.ensure_future(head.keep())
    await asyncio.sleep(0)
    head.leader.resign()
    assert await asked == "does not lead: it is ending"
    assert not head.leader.leading
    await head.leader.release()
    assert (await other.keep()).startswith("leads under term")
    assert head.won == [1] * held


async def test_who_resigns_while_it_reads_the_store_does_not_lead_after(head: Head):
    async def resign() -> None:
        head.leader.resign()

    head.leader.on_won(resign)
    assert await head.keep() == "does not lead: it is ending"
    assert not head.leader.settled((), 0.0)
    assert head.leader.period() == pytest.approx(TTL / 3)


async def test_terms_seen_at_once_and_while_it_renews_raise_it_and_cost_no_leadership(
    head: Head, clock: FakeClock
):
    await head.keep()
    await clock.advance(head.leader.period())
    await asyncio.gather(head.leader.saw(7), head.keep(), head.leader.saw(5), head.leader.saw(9))
    assert (head.leader.term, head.leader.leading, head.lost) == (10, True, [])
    for _ in range(5):
        await clock.advance(head.leader.period())
        assert await head.keep() == "leads under term 10"


async def test_who_can_not_read_the_store_gives_the_lease_back(head: Head, other: Head):
    async def fails() -> None:
        raise Unreachable("a table is away")

    head.leader.on_won(fails)
    with pytest.raises(Unreachable, match="a table is away"):
        await head.keep()
    assert not head.leader.leading
    assert await other.keep() == "leads under term 2"


async def test_an_old_leader_learns_of_the_new_one_from_an_agents_term(
    head: Head, other: Head, clock: FakeClock
):
    await head.keep()
    await clock.advance(TTL)
    await other.keep()
    await head.leader.saw(2)
    assert head.lost == ["cp-1 no longer leads under term 1: cp-2 leads under term 2"]
    assert other.leader.term == 2
    await other.leader.saw(7)
    assert other.leader.term == 8
    assert await other.keep() == "leads under term 8"
