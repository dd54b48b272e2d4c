"""A probe that hangs or fails: its last value stays a while, and the rest never waits."""

import asyncio
import errno
import resource
from collections.abc import Awaitable
from contextlib import suppress

import pytest

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


async def error_of(running: Awaitable[None], probing: Probing) -> str | None:
    await running
    return probing.state().error


async def test_a_reading_that_a_pass_left_is_taken_up_by_the_next_one(clock: FakeClock):
    probe = Slow(clock)
    probing = Probing(probe, clock)
    probe.hang.clear()
    first = asyncio.ensure_future(probing.run_once())
    await clock.advance(3)
    # As an agent does it that registers without waiting any longer.
    first.cancel()
    await settle()
    assert first.cancelled()
    second = asyncio.ensure_future(probing.run_once())
    await clock.advance(1)
    probe.hang.set()
    await settle()
    assert await error_of(second, probing) is None
    assert (probe.readings, probing.state().error, probing.sentence) == (1, None, "read")


async def test_a_reading_that_was_left_has_no_more_time_than_any_other(clock: FakeClock):
    probe = Slow(clock)
    probing = Probing(probe, clock)
    probe.hang.clear()
    first = asyncio.ensure_future(probing.run_once())
    await clock.advance(3)
    first.cancel()
    await settle()
    second = asyncio.ensure_future(probing.run_once())
    await clock.advance(6.5)
    assert not second.done()
    await clock.advance(0.6)
    assert await error_of(second, probing) == "slow: no reading within 10 s"
    assert probing.state().failing == pytest.approx(10.1)
    await probing.close()


async def test_a_reading_that_was_left_and_came_to_nothing_is_told_once(clock: FakeClock):
    probe = Slow(clock)
    probing = Probing(probe, clock)
    probe.hang.clear()
    probe.error = Unreadable("/proc/x: garbage")
    first = asyncio.ensure_future(probing.run_once())
    await clock.advance(3)
    first.cancel()
    await settle()
    probe.hang.set()
    await settle()
    assert await error_of(probing.run_once(), probing) == "/proc/x: garbage"
    probe.error = None
    assert await error_of(probing.run_once(), probing) is None


class Stubborn(Slow):
    """A probe whose reading can't be ended, as what waits for a process in the kernel."""

    async def read(self) -> str:
        self.readings += 1
        with suppress(asyncio.CancelledError):
            await self.hang.wait()
        await self.hang.wait()
        return "read"


async def test_a_reading_that_does_not_end_when_it_is_given_up_is_said_to(clock: FakeClock):
    probe = Stubborn(clock)
    probing = Probing(probe, clock)
    probe.hang.clear()
    first = asyncio.ensure_future(probing.run_once())
    await clock.advance(10)
    assert await error_of(first, probing) == "slow: no reading within 10 s"
    await clock.advance(20)
    second = asyncio.ensure_future(probing.run_once())
    await clock.advance(3)
    words = "slow: a reading begun 33 s ago was given up and does not end"
    assert await error_of(second, probing) == words
    assert probe.readings == 1
    assert probing.state().failing == 33.0
    probe.hang.set()
    await settle()
    assert await error_of(probing.run_once(), probing) is None
    assert probe.readings == 2


async def test_a_reading_that_just_ends_is_no_failure_of_the_next_one(clock: FakeClock):
    probe = Stubborn(clock)
    probing = Probing(probe, clock)
    probe.hang.clear()
    first = asyncio.ensure_future(probing.run_once())
    await clock.advance(10)
    await first
    second = asyncio.ensure_future(probing.run_once())
    await clock.advance(1)
    probe.hang.set()
    await settle()
    assert await error_of(second, probing) is None


async def test_a_probe_that_takes_long_is_asked_again_in_its_period(clock: FakeClock):
    probe = Slow(clock)
    began: list[float] = []

    async def read() -> str:
        began.append(clock.monotonic())
        await clock.sleep(takes)
        return "read"

    probe.read = read  # type: ignore[method-assign]
    takes = 3.0
    probing = Probing(probe, clock)
    running = asyncio.ensure_future(probing.run())
    await clock.advance(11)
    assert began == [0, 5, 10]
    # Slower than its period: it rests a little.
    takes = 7.0
    await clock.advance(20)
    assert began == [0, 5, 10, 15, 24]
    running.cancel()
    await probing.close()


async def test_what_the_system_refuses_is_told_in_words(clock: FakeClock):
    probe = Slow(clock)
    errors = iter(
        (
            OSError(errno.EMFILE, "Too many open files", "/proc/stat"),
            OSError(-1, "Unknown error -1"),
            OSError(errno.EACCES, "Permission denied", "/proc/x"),
        )
    )

    async def read() -> str:
        raise next(errors)

    probe.read = read  # type: ignore[method-assign]
    probing = Probing(probe, clock)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert await error_of(probing.run_once(), probing) == f"too many open files (limit {limit})"
    assert await error_of(probing.run_once(), probing) == f"too many open files (limit {limit})"
    assert await error_of(probing.run_once(), probing) == "/proc/x: Permission denied"
