"""The store in memory does what every store must do, and several may share it."""

import msgspec
import pytest
from hypothesis import settings

from llmgw.base.errors import Unreachable
from llmgw.store.interface import Store
from llmgw.store.memory import Memory, MemoryStore
from tests.fakes.clock import FakeClock
from tests.flow.store import samples
from tests.flow.store.every import EveryConformance
from tests.flow.store.lease_conformance import SharedConformance, claim, led
from tests.flow.store.lease_stateful import LeaseAgainstModel
from tests.flow.store.stateful import StoreAgainstModel


@pytest.fixture
def memory() -> Memory:
    return Memory()


class MemoryPlace:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.memory = Memory(self.clock)

    def store(self) -> Store:
        return MemoryStore(self.memory)

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)


class TestMemory(EveryConformance, SharedConformance):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class MemoryAgainstModel(StoreAgainstModel):
    def new_place(self) -> MemoryPlace:
        return MemoryPlace()


TestMemoryAgainstModel = MemoryAgainstModel.TestCase
TestMemoryAgainstModel.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)


class MemoryLeaseAgainstModel(LeaseAgainstModel):
    def new_place(self) -> MemoryPlace:
        return MemoryPlace()


TestMemoryLeaseAgainstModel = MemoryLeaseAgainstModel.TestCase
TestMemoryLeaseAgainstModel.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None
)


async def test_what_one_writes_the_others_read(memory: Memory):
    first, second = MemoryStore(memory), MemoryStore(memory)
    await first.open("cp-1")
    await second.open("cp-2")
    written = await first.put_settings(
        samples.settings(stopped=True), expected=0, actor="ana", at=1.0
    )
    assert await second.settings() == written
    await first.close()
    assert await second.settings() == written


async def test_a_store_that_is_not_open_or_closed_is_unreachable_in_words(memory: Memory):
    store = MemoryStore(memory)
    with pytest.raises(Unreachable, match="not open"):
        await store.models()
    await store.open("cp-1")
    await store.close()
    await store.close()
    with pytest.raises(Unreachable, match="closed"):
        await store.models()


async def test_a_call_that_does_not_reach_it_changes_nothing(memory: Memory):
    away = [False]

    def reach() -> None:
        if away[0]:
            raise Unreachable("no way to the store")

    store = MemoryStore(memory, reach=reach)
    await store.open("cp-1")
    away[0] = True
    with pytest.raises(Unreachable, match="no way"):
        await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
    away[0] = False
    assert await store.models() == ()
    assert await store.audit() == ()


async def test_what_is_given_and_what_is_read_may_change_without_the_store(memory: Memory):
    store = MemoryStore(memory)
    await store.open("cp-1")
    given = samples.settings(stopped=True)
    await store.put_settings(given, expected=0, actor="ana", at=1.0)
    given.engines.clear()
    (await store.settings()).settings.engines.clear()
    assert "llamacpp" in (await store.settings()).settings.engines


async def test_the_audit_s_rows_hang_together_and_a_changed_one_is_said(memory: Memory):
    store = MemoryStore(memory)
    await store.open("cp-1")
    for number in range(3):
        await store.put_model(samples.model(f"m{number}"), expected=0, actor="ana", at=1)
    assert await store.verify_audit() is None
    row = memory.audit.rows[1]
    memory.audit.rows[1] = msgspec.structs.replace(row, actor="eve")
    assert "row 2 was changed" in (await store.verify_audit() or "")
    del memory.audit.rows[1:]
    assert "ends at row 1; 3 rows were written" in (await store.verify_audit() or "")


async def test_without_a_clock_a_lease_lasts_until_it_is_given_up(memory: Memory):
    first, second = MemoryStore(memory), MemoryStore(memory)
    await first.open("cp-1")
    await second.open("cp-2")
    lease = await led(first)
    assert lease.left is None
    assert (await second.acquire_lease(claim("cp-2"), ttl=5.0)).claim == claim()
    await first.release_lease(lease)
    assert (await led(second, claim("cp-2"))).term == 2
