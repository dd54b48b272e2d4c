"""The term rises with each start and above what agents have seen, and for no other reason."""

import pytest

from llmgw.control.leader import Leader
from tests.fakes.clock import FakeClock
from tests.fakes.memory_store import MemoryStore


@pytest.fixture
async def leader(clock: FakeClock) -> Leader:
    leader = Leader(MemoryStore(), clock, "head")
    await leader.take()
    return leader


@pytest.mark.parametrize(("seen", "above"), [(-1, 0), (0, 0), (1, 2), (40, 41)])
async def test_only_a_term_above_its_own_raises_it(leader: Leader, seen: int, above: int) -> None:
    before = leader.term
    await leader.saw(before + seen)
    assert leader.term == before + above


async def test_it_settles_when_all_reported_or_when_the_period_is_over(
    leader: Leader, clock: FakeClock
) -> None:
    assert not leader.settled(("gpu-01",), 30.0)
    await clock.advance(29.9)
    assert not leader.settled(("gpu-01",), 30.0)
    await clock.advance(0.1)
    assert leader.settled(("gpu-01",), 30.0)
    assert leader.settled(("gpu-01", "gpu-02"), 3000.0)


async def test_nobody_awaited_is_settled_at_once_and_who_resigned_never_is(leader: Leader) -> None:
    assert leader.settled((), 30.0)
    leader.resign()
    assert not leader.settled((), 0.0)
    assert not leader.leading
