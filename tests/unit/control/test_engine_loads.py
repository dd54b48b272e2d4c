"""What gateways are told of engines' loads: what is new, to those that take it."""

from llmgw.control.engine_loads import MOST, Telling, stale_after
from llmgw.control.plane import Plane
from llmgw.model.gateway import ENGINE_LOADS, EngineLoad
from llmgw.plan.records import Load
from tests.fakes.clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened
from tests.unit.control.calling import Caller


def load(replica: str = "m-1", *, running: int | None = 2, age: float | None = 1.0) -> Load:
    return Load(replica=replica, running=running, waiting=1, cache_used=0.5, age=age)


def test_what_was_told_is_not_told_again_until_the_engine_says_something_new():
    telling = Telling()
    first = telling.news([load(age=1.0)], 100.0, 15.0)
    assert first is not None
    assert first.loads == (
        EngineLoad(replica="m-1", running=2, waiting=1, cache_used=0.5, age=1.0),
    )
    assert telling.news([load(age=2.0)], 101.0, 15.0) is None
    assert telling.news([load(age=0.2)], 102.0, 15.0) is not None


def test_what_nobody_said_or_said_too_long_ago_is_not_told():
    telling = Telling()
    silent = Load(replica="m-2", age=1.0)
    assert telling.news([silent, load(age=None), load(age=15.0)], 100.0, 15.0) is None


def test_a_message_has_an_end_and_the_rest_follows():
    telling, loads = Telling(), [load(f"m-{number}") for number in range(MOST + 5)]
    first = telling.news(loads, 100.0, 15.0)
    second = telling.news(loads, 100.0, 15.0)
    assert first is not None
    assert second is not None
    assert (len(first.loads), len(second.loads)) == (MOST, 5)


def test_a_replica_that_left_is_forgotten():
    telling = Telling()
    telling.news([load()], 100.0, 15.0)
    telling.news([], 101.0, 15.0)
    assert telling._told == {}


def test_three_looks_of_an_agent_make_a_figure_old():
    assert stale_after(5.0) == 15.0
    assert stale_after(1.0) == 15.0  # an agent looks each 5 seconds, however often it reports
    assert stale_after(10.0) == 30.0


async def test_gateways_that_take_it_are_told_and_others_are_not(clock: FakeClock) -> None:
    plane: Plane = make_plane(clock, MemoryStore())
    async with opened(plane):
        new = await Caller(plane, "g1").register(features=(ENGINE_LOADS,))
        old = await Caller(plane, "g2", serial="02").register()
        assert plane.gateways.tell_engine_loads(lambda: [load()], 15.0) == 1
        assert [one.engine_loads for one in new.stream.sent if one.engine_loads]
        assert not [one.engine_loads for one in old.stream.sent if one.engine_loads]
        assert plane.gateways.tell_engine_loads(lambda: [load()], 15.0) == 0


async def test_nothing_is_looked_up_when_no_gateway_listens(clock: FakeClock) -> None:
    def never() -> list[Load]:
        raise AssertionError

    plane = make_plane(clock, MemoryStore())
    async with opened(plane):
        assert plane.gateways.tell_engine_loads(never, 15.0) == 0
