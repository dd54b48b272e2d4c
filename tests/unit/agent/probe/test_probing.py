"""A probe that hangs or fails: its last value stays a while, and the rest never waits."""

import asyncio

from llmgw.base.errors import Unreadable
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.probing import Probing
from tests.fakes.clock import FakeClock, settle


class Slow:
    """A probe that answers when the test lets it."""

    name = "slow"
    period = 5.0
    again = 20.0
    timeout = 10.0

    def __init__(self, clock: FakeClock) -> None:
        self.kept: Kept[int] = Kept(clock)
        self.hang = asyncio.Event()
        self.hang.set()
        self.error: Unreadable | None = None
        self.readings = 0

    @property
    def age(self) -> float | None:
        return self.kept.age

    async def read(self) -> str:
        self.readings += 1
        await self.hang.wait()
        if self.error is not None:
            raise self.error
        self.kept.put(self.readings)
        return "read"


async def test_a_probe_that_hangs_is_given_up_and_asked_again(clock: FakeClock):
    probe = Slow(clock)
    probing = Probing(probe, clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(probing.run())
        await settle()
        assert probe.kept.fresh == 1
        probe.hang.clear()
        await clock.advance(5)
        assert probe.readings == 2
        await clock.advance(10)
        assert "no reading within 10 s" in (probing.state().error or "")
        assert probe.kept.fresh == 1
        await clock.advance(60)
        assert probe.kept.fresh is None
        assert probe.kept.last == 1
        probe.hang.set()
        await clock.advance(5)
        assert probe.kept.fresh is not None
        assert probing.state().error is None
        running.cancel()


async def test_a_state_tells_age_and_error(clock: FakeClock):
    probe = Slow(clock)
    probing = Probing(probe, clock)
    assert probing.state().age is None
    await probing.run_once()
    probe.error = Unreadable("/proc/x: garbage")
    await clock.advance(3)
    await probing.run_once()
    state = probing.state()
    assert (state.name, state.age, state.error) == ("slow", 3.0, "/proc/x: garbage")


class Nothing:
    """A probe whose tool is not on the machine."""

    name = "nothing"
    period = 60.0
    again = 20.0
    timeout = 10.0
    age = None

    async def read(self) -> str:
        return "there is no such tool here"


async def test_a_probe_with_nothing_to_read_says_when_it_looked(clock: FakeClock):
    probing = Probing(Nothing(), clock)
    assert probing.state().age is None
    await probing.run_once()
    await clock.advance(7)
    assert (probing.state().age, probing.state().error) == (7.0, None)


async def test_a_probe_that_is_asked_seldom_is_asked_sooner_while_it_fails(clock: FakeClock):
    probe = Slow(clock)
    probe.period = 600.0
    probing = Probing(probe, clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(probing.run())
        await settle()
        assert probing.state().period == 600.0
        probe.error = Unreadable("the tool is gone")
        await clock.advance(600)
        assert (probe.readings, probing.state().period) == (2, 20.0)
        probe.error = None
        await clock.advance(20)
        assert (probe.readings, probing.state().error, probing.state().period) == (3, None, 600.0)
        running.cancel()
