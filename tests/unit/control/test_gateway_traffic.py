"""What gateways counted: summed over their starts, shown as far as it is stored, never less."""

import pytest

from llmgw.base.errors import Unreachable
from llmgw.control.plane import Plane
from llmgw.model.gateway import ModelTraffic, TrafficReport
from llmgw.model.link import GatewayMessage
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened, pass_time, running
from tests.unit.control.calling import Caller


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def said(boot: str, tokens: int) -> GatewayMessage:
    models = (ModelTraffic(model="m", completion_tokens=tokens, in_flight=1),)
    return GatewayMessage(traffic=TrafficReport(gateway="g1", boot=boot, worker=0, models=models))


async def test_traffic_is_kept_per_worker_and_summed_over_boots(plane: Plane) -> None:
    async with opened(plane):
        caller = await Caller(plane).register(boot="b1")
        caller.stream.say(said("b1", 5))
        await settle()
        assert await plane.gateways.keep_traffic() == 1
        assert plane.gateways.traffic_by_model()["m"].in_flight == 1
        caller.stream.hang_up()
        await caller.task
        assert plane.gateways.traffic_by_model()["m"].in_flight == 0
        again = await Caller(plane).register(boot="b2")
        again.stream.say(said("b2", 3))
        await settle()
        await plane.gateways.keep_traffic()
        assert plane.gateways.traffic_by_model()["m"].completion_tokens == 8
        assert len(plane.gateways.traffic()) == 1


async def test_totals_are_there_after_a_kill_and_before_any_gateway_came_back(
    clock: FakeClock, store: MemoryStore
) -> None:
    async with running(make_plane(clock, store)) as plane:
        caller = await Caller(plane).register(boot="b1")
        caller.stream.say(said("b1", 5))
        await pass_time(clock, 2.5)
        assert plane.gateways.traffic_by_model()["m"].completion_tokens == 5
        caller.stream.say(said("b1", 6))
        await settle()
        assert plane.gateways.traffic_by_model()["m"].completion_tokens == 5
    async with running(make_plane(clock, store)) as after:
        total = after.gateways.traffic_by_model()["m"]
        assert (total.completion_tokens, total.in_flight) == (5, 0)
        again = await Caller(after).register(boot="b1")
        again.stream.say(said("b1", 6))
        await pass_time(clock, 2.5)
        assert after.gateways.traffic_by_model()["m"].completion_tokens == 6


async def test_a_clean_end_stores_what_was_counted_last(
    clock: FakeClock, store: MemoryStore
) -> None:
    plane = make_plane(clock, store)
    async with opened(plane):
        caller = await Caller(plane).register(boot="b1")
        caller.stream.say(said("b1", 5))
        await settle()
        await plane.close()
    assert store.traffic_rows["g1"].reports[0].models[0].completion_tokens == 5


async def test_a_store_that_is_away_holds_totals_back_and_loses_none(
    plane: Plane, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(counted: object) -> None:
        raise Unreachable("the store is away")

    async with opened(plane):
        caller = await Caller(plane).register(boot="b1")
        caller.stream.say(said("b1", 5))
        await settle()
        with monkeypatch.context() as patch:
            patch.setattr(store, "put_traffic", away)
            assert (await plane.passes["traffic"].run_once()).error == "the store is away"
        assert plane.gateways.traffic_by_model() == {}
        assert (await plane.passes["traffic"].run_once()).error is None
        assert plane.gateways.traffic_by_model()["m"].completion_tokens == 5
