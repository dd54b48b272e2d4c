"""Two worker places that take turns at one socket."""

import asyncio
from typing import Any, cast

import pytest

from llmgw.gateway.slots import FINISHES_WITHIN, LISTENS_WITHIN, Slot
from tests.fakes.clock import FakeClock


class FakePlace:
    """A place whose worker listens when it is told, and ends when it is drained."""

    def __init__(self, *, comes_up: bool = True) -> None:
        self.active = False
        self.listening = False
        self.drains: list[tuple[float, bool]] = []
        self.holds = asyncio.Event()
        self.holds.set()
        self._comes_up = comes_up
        self._ends = asyncio.Event()

    def renew(self) -> None:
        self._ends.clear()

    async def run(self) -> None:
        self.active, self.listening = True, self._comes_up
        await self._ends.wait()
        await self.holds.wait()
        self.active = self.listening = False

    async def drain(self, seconds: float, *, gently: bool = False) -> None:
        self.drains.append((seconds, gently))
        self._ends.set()


class Listener:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def slot_of(clock: FakeClock, *places: FakePlace) -> tuple[Slot, Listener]:
    listener = Listener()
    return Slot(cast("Any", listener), cast("Any", places), clock), listener


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_restart_drains_the_old_place_gently_once_the_new_one_listens(clock):
    one, other = FakePlace(), FakePlace()
    slot, listener = slot_of(clock, one, other)
    running = asyncio.ensure_future(slot.run())
    await settle()
    assert (one.active, other.active) == (True, False)
    restart = asyncio.ensure_future(slot.restart())
    await settle()
    await clock.advance(1.0)
    assert "a new worker serves" in await restart
    await settle()
    assert (one.active, other.active) == (False, True)
    assert one.drains == [(FINISHES_WITHIN, True)]
    assert not listener.closed
    await slot.drain(5.0)
    await running
    assert listener.closed
    assert (other.active, other.drains) == (False, [(5.0, False)])


async def test_a_new_worker_that_never_listens_leaves_the_old_one_as_it_is(clock):
    one, other = FakePlace(), FakePlace(comes_up=False)
    slot, _ = slot_of(clock, one, other)
    running = asyncio.ensure_future(slot.run())
    await settle()
    restart = asyncio.ensure_future(slot.restart())
    await settle()
    for _ in range(round(LISTENS_WITHIN) + 2):
        await clock.advance(1.0)
    assert "the old one stays" in await restart
    await settle()
    assert (one.active, one.drains) == (True, [])
    assert (other.active, other.drains) == (False, [(0.0, False)])
    await slot.drain(0.0)
    await running


async def test_while_the_old_worker_finishes_there_is_no_further_restart(clock):
    one, other = FakePlace(), FakePlace()
    slot, _ = slot_of(clock, one, other)
    running = asyncio.ensure_future(slot.run())
    await settle()
    one.holds.clear()
    restart = asyncio.ensure_future(slot.restart())
    await settle()
    await clock.advance(1.0)
    await restart
    await settle()
    assert "still finishes" in await slot.restart()
    assert (one.active, other.active) == (True, True)
    one.holds.set()
    await slot.drain(0.0)
    await running
