"""The event loop: time that is only counted, steps in one order, lives that stand still or end."""

import asyncio
import contextvars
from collections.abc import Iterator

import pytest

from llmgw.local.sim.loop import BEGIN, Life, SimLoop, Stuck


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


def test_an_hour_passes_without_waiting_for_it(loop: SimLoop):
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == BEGIN + 3600


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set(loop: SimLoop):
    seen: list[int] = []

    async def main() -> None:
        for number in range(100):
            loop.call_at(BEGIN + 5, seen.append, number)
        await asyncio.sleep(6)

    loop.run_until_complete(main())
    assert seen == list(range(100))


def test_a_set_of_tasks_is_in_the_order_in_which_they_were_made(loop: SimLoop):
    async def main() -> list[str]:
        tasks = {asyncio.ensure_future(asyncio.sleep(1)) for _ in range(50)}
        names = [task.get_name() for task in tasks]
        await asyncio.gather(*tasks)
        return names

    names = loop.run_until_complete(main())
    assert names == sorted(names, key=lambda name: int(name.partition(" ")[2]))


def test_what_would_go_to_a_thread_is_done_at_once(loop: SimLoop):
    async def main() -> tuple[float, int]:
        value = await asyncio.to_thread(lambda: 7)
        return loop.time(), value

    assert loop.run_until_complete(main()) == (BEGIN, 7)


def test_a_frozen_life_does_in_order_what_it_would_have_done_when_it_goes_on(loop: SimLoop):
    life, seen = Life("a program", "127.0.0.1"), []

    async def program() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time() - BEGIN)

    async def main() -> None:
        task = loop.live(life, program())
        await asyncio.sleep(2.5)
        loop.freeze(life)
        await asyncio.sleep(10)
        loop.thaw(life)
        await asyncio.sleep(1.2)
        loop.kill(life)
        assert not task.done()

    loop.run_until_complete(main())
    assert seen == [1, 2, 12.5, 13.5]


def test_nothing_of_a_killed_life_runs_not_even_what_would_clean_up(loop: SimLoop):
    life, seen = Life("a program", "127.0.0.1"), []

    async def program() -> None:
        try:
            await asyncio.sleep(5)
            seen.append("slept")
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        task = loop.live(life, program())
        await asyncio.sleep(1)
        loop.kill(life)
        await asyncio.sleep(60)
        assert not task.done()

    loop.run_until_complete(main())
    assert seen == []


def test_what_ends_a_life_by_itself_is_told(loop: SimLoop):
    async def program() -> None:
        raise ValueError("no")

    async def main() -> None:
        task = loop.live(Life("a program", "127.0.0.1"), program())
        await asyncio.wait({task})

    loop.run_until_complete(main())
    assert [repr(fault["exception"]) for fault in loop.faults] == ["ValueError('no')"]


def test_a_run_that_waits_for_nothing_says_who_waits_where(loop: SimLoop):
    with pytest.raises(Stuck, match=r"no timer is set\n1 tasks.*\n.*test_loop.py"):
        loop.run_until_complete(asyncio.wait_for(_for_ever(), None))


def test_a_run_whose_clock_stands_still_is_ended(loop: SimLoop):
    async def main() -> None:
        while loop.time() == BEGIN:  # noqa: ASYNC110 -- it is meant to stand still
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match=r"steps at 1000\.000 s"):
        loop.run_until_complete(main())


def test_a_step_runs_in_the_context_of_whoever_asked_for_it(loop: SimLoop):
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("v", default="")
    seen: list[str] = []

    async def main() -> None:
        variable.set("mine")
        loop.call_later(1, lambda: seen.append(variable.get()))
        loop.call_later(1, lambda: seen.append(variable.get()), context=contextvars.Context())
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    assert seen == ["mine", ""]


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
