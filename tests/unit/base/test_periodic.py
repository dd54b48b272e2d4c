import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs

from llmgw.base.errors import TimedOut, Unreadable
from llmgw.base.periodic import Periodic
from tests.fakes.clock import FakeClock, settle


@asynccontextmanager
async def running(periodic: Periodic) -> AsyncIterator[None]:
    task = asyncio.create_task(periodic.run_forever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_runs_at_once_and_then_each_period(clock: FakeClock) -> None:
    async def act() -> str:
        return "did it"

    periodic = Periodic("p", lambda: 5.0, act, clock)
    async with running(periodic):
        await settle()
        assert periodic.passes == 1
        await clock.advance(4.9)
        assert periodic.passes == 1
        await clock.advance(0.2)
        assert periodic.passes == 2
    assert periodic.last is not None
    assert periodic.last.sentence == "did it"


async def test_waking_it_many_times_is_one_pass_without_waiting(clock: FakeClock) -> None:
    async def act() -> str:
        return "did it"

    periodic = Periodic("p", lambda: 3600.0, act, clock)
    async with running(periodic):
        await settle()
        for _ in range(5):
            periodic.wake()
        await settle()
        assert periodic.passes == 2


async def test_a_wake_during_a_pass_is_not_lost(clock: FakeClock) -> None:
    gate = asyncio.Event()

    async def act() -> str:
        await gate.wait()
        return "did it"

    periodic = Periodic("p", lambda: 3600.0, act, clock)
    async with running(periodic):
        await settle()
        periodic.wake()
        gate.set()
        await settle()
        assert periodic.passes == 2


async def test_a_failed_pass_is_remembered_and_the_next_one_runs(clock: FakeClock) -> None:
    fails = [True, False]

    async def act() -> str:
        if fails.pop(0):
            raise RuntimeError("store is away")
        return "caught up"

    periodic = Periodic("p", lambda: 1.0, act, clock)
    async with running(periodic):
        await settle()
        assert periodic.last is not None
        assert periodic.last.error == "store is away"
        await clock.advance(1.0)
        assert periodic.last.sentence == "caught up"
        assert periodic.last.error is None


async def test_the_period_is_asked_each_time(clock: FakeClock) -> None:
    period = [10.0]

    async def act() -> str:
        return ""

    periodic = Periodic("p", lambda: period[0], act, clock)
    async with running(periodic):
        await settle()
        period[0] = 1.0
        await clock.advance(10.0)
        assert periodic.passes == 2
        await clock.advance(1.0)
        assert periodic.passes == 3


class Failing:
    """A pass that fails with what the test puts there, each time in other words."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.failures: list[Exception] = []

    async def act(self) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "caught up"

    async def logged(self, *failures: Exception) -> list[MutableMapping[str, Any]]:
        """Return what is logged above debug, of failures ten seconds apart and one recovery."""
        periodic = Periodic("p", lambda: 10.0, self.act, self.clock)
        self.failures = list(failures)
        with capture_logs() as found:
            for _ in range(len(failures) + 1):
                await periodic.run_once()
                await self.clock.advance(10.0)
        return [line for line in found if line["log_level"] != "debug"]


async def test_a_series_of_failures_is_one_line_and_its_end_another(clock: FakeClock) -> None:
    troubles = (TimedOut("port 0: no end"), TimedOut("port 1: no end"), Unreadable("port 0: odd"))
    failed, recovered = await Failing(clock).logged(*troubles)
    assert (failed["event"], failed["error"]) == ("pass failed", "port 0: no end")
    assert "exc_info" not in failed
    assert (recovered["event"], recovered["sentence"]) == ("pass recovered", "caught up")
    assert recovered["failed_seconds"] == 30.0


async def test_what_nobody_foresaw_is_logged_once_with_its_traceback(clock: FakeClock) -> None:
    bug, again = ZeroDivisionError("in a parser"), KeyError("in another")
    first, traced, _ = await Failing(clock).logged(TimedOut("no end"), bug, again)
    assert ("exc_info" in first, traced["exc_info"]) == (False, bug)


async def test_each_series_is_logged(clock: FakeClock) -> None:
    failing = Failing(clock)
    assert len(await failing.logged(TimedOut("no end"))) == 2
    assert len(await failing.logged(TimedOut("no end"))) == 2


async def test_it_is_cancelled_while_it_waits_though_it_is_woken_at_that_moment(clock: FakeClock):
    async def act() -> str:
        return "did it"

    periodic = Periodic("p", lambda: 3600.0, act, clock)
    task = asyncio.create_task(periodic.run_forever())
    await settle()
    periodic.wake()
    task.cancel()
    await settle()
    assert task.cancelled()
    assert periodic.passes == 1


async def test_one_that_wakes_itself_lets_others_run(clock: FakeClock):
    others = 0

    async def act() -> str:
        periodic.wake()
        return "did it"

    periodic = Periodic("p", lambda: 3600.0, act, clock)
    async with running(periodic):
        while periodic.passes < 10:
            others += 1
            await asyncio.sleep(0)
    assert others >= 5


async def test_whoever_cancels_it_as_it_is_woken_ends_it(clock: FakeClock) -> None:
    async def act() -> str:
        return "did it"

    for wake_first in (True, False):
        periodic = Periodic("p", lambda: 3600.0, act, clock)
        task = asyncio.create_task(periodic.run_forever())
        await settle()
        for step in (periodic.wake, task.cancel) if wake_first else (task.cancel, periodic.wake):
            step()
        await asyncio.wait([task])
        assert task.cancelled()
        assert periodic.passes == 1


async def test_a_wake_at_the_end_of_the_pause_is_one_pass_and_cancels_nothing_later(
    clock: FakeClock,
) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Pausing(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await over

    waited: list[int] = []

    async def act() -> str:
        await asyncio.sleep(0)
        waited.append(1)
        return "did it"

    periodic = Periodic("p", lambda: 3600.0, act, Pausing())
    async with running(periodic):
        await settle()
        over.set_result(None)
        periodic.wake()
        over = asyncio.get_running_loop().create_future()
        await settle()
        assert len(waited) == periodic.passes == 2
