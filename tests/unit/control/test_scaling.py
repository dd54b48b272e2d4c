"""Scaling in a whole control plane: what gateways tell becomes replicas, and routes that hold."""

import msgspec
import pytest

from llmgw.control.plane import Plane
from llmgw.model.catalog import Scaling
from llmgw.model.gateway import LoadReport, ModelQueue, ModelTraffic, ReplicaLoad, TrafficReport
from llmgw.model.gateway import ReplyCount as Replies
from llmgw.model.replica import DRAINING
from llmgw.model.shard import READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, pass_time, running, says
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def tells(plane: Plane, *, queued: int = 0, in_flight: int = 0) -> None:
    """Let a gateway tell how many wait for the model, and what each replica has."""
    says(
        plane,
        LoadReport(
            gateway="gw-1",
            replicas=tuple(
                ReplicaLoad(replica=one.id, in_flight=in_flight) for one in plane.fleet.replicas()
            ),
            queues=(ModelQueue(model="tiny", queued=queued),) if queued else (),
        ),
    )


def counted(plane: Plane, requests: int, tokens: int = 0, *, in_flight: int = 0) -> None:
    """Let a gateway's worker tell what it counted."""
    traffic = ModelTraffic(
        model="tiny",
        replies=(Replies(code=200, count=requests),),
        completion_tokens=tokens,
        in_flight=in_flight,
    )
    plane.loads.counted(TrafficReport(gateway="gw-1", boot="b", worker=0, models=(traffic,)))


def states(plane: Plane) -> list[str | None]:
    return [one.state for one in plane.fleet.replicas()]


async def test_a_request_starts_a_model_that_rests_and_it_rests_again_when_nothing_is_asked(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        agent.loads = True
        await agent.connect(plane.agents)
        rests = cpu_model(replicas=0, max_replicas=1, scaling=Scaling(idle_stop=120))
        await plane.catalog.put(rests, None, actor="me")
        await pass_time(clock, 20, [agent])
        (route,) = plane.fleet.routes()
        assert (route.holds, route.wanted, states(plane)) == (True, 0, [])
        assert route.reason == "nothing is asked of it: a request starts it"
        tells(plane, queued=1)
        await settle()
        (route,) = plane.fleet.routes()
        assert (route.holds, route.wanted) == (True, 1)
        assert "starting" in (route.reason or "")
        agent.ready()
        await settle()
        (route,) = plane.fleet.routes()
        assert (route.holds, len(route.endpoints)) == (False, 1)
        counted(plane, 0, in_flight=1)
        tells(plane, in_flight=1)
        await pass_time(clock, 600, [agent])
        assert states(plane) == [READY]
        tells(plane)
        counted(plane, 1)
        await pass_time(clock, 115, [agent])
        assert states(plane) == [READY]
        await pass_time(clock, 10, [agent])
        assert states(plane) == []
        (route,) = plane.fleet.routes()
        assert route.holds
        assert route.reason == "nothing was asked of it for 2m00s: a request starts it"


async def test_requests_for_what_cannot_be_placed_are_not_held(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        model = cpu_model(replicas=0, max_replicas=1, gpus=1)
        await plane.catalog.put(model, None, actor="me")
        await settle()
        assert plane.fleet.routes()[0].holds
        tells(plane, queued=1)
        await settle()
        (route,) = plane.fleet.routes()
        assert not route.holds
        assert (route.reason or "").startswith("can't be placed: n1: ")


async def test_a_request_that_comes_while_the_last_replica_drains_is_served_by_it(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1", devices=1)
        await agent.connect(plane.agents)
        rule = Scaling(idle_stop=60)
        await plane.catalog.put(cpu_model(gpus=1, scaling=rule), None, actor="me")
        await pass_time(clock, 59, [agent], every=1)
        for _ in range(10):
            if states(plane) == [READY]:
                await pass_time(clock, 0.5, [agent])
        assert states(plane) == [DRAINING]
        (route,) = plane.fleet.routes()
        assert (route.holds, route.wanted) == (True, 0)
        assert route.reason == "nothing was asked of it for 1m00s: a request starts it"
        (before,) = plane.fleet.replicas()
        tells(plane, queued=1, in_flight=1)
        await settle()
        (route,) = plane.fleet.routes()
        assert (route.holds, len(route.endpoints)) == (False, 1)
        assert [one.id for one in plane.fleet.replicas()] == [before.id]


async def test_a_request_starts_the_profile_that_fits_and_is_told_why_none_does(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        gpu = cpu_model(replicas=0, max_replicas=1, gpus=1)
        small, big = (
            msgspec.structs.replace(
                gpu.profiles[0], name=name, gpus=0, node_selector={"zone": name}
            )
            for name in ("small", "big")
        )
        both = msgspec.structs.replace(gpu, profiles=(*gpu.profiles, big))
        await plane.catalog.put(both, None, actor="me")
        await settle()
        tells(plane, queued=1)
        await settle()
        (route,) = plane.fleet.routes()
        assert not route.holds
        assert (route.reason or "").startswith("can't be placed: default: n1: ")
        assert "; big: n1: " in (route.reason or "")
        tells(plane)
        seen = {plane.fleet.routes()[0].reason}
        for _ in range(5):
            await pass_time(clock, 2, [agent])
            seen.add(plane.fleet.routes()[0].reason)
        assert len(seen) == 1
        any_ = msgspec.structs.replace(small, node_selector={})
        fits = msgspec.structs.replace(gpu, profiles=(*gpu.profiles, big, any_))
        await plane.catalog.put(fits, None, actor="me")
        await settle()
        assert [one.profile for one in plane.fleet.replicas()] == ["small"]


async def test_what_rests_says_what_starts_it_while_the_cluster_settles(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        rests = cpu_model(replicas=1, scaling=Scaling(idle_stop=30))
        await plane.catalog.put(rests, None, actor="me")
        await pass_time(clock, 90, [agent])
        assert states(plane) == []
    await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        (route,) = again.fleet.routes()
        assert (route.holds, route.wanted) == (True, 0)
        assert route.reason == "its replicas are not counted yet: a request starts it"
        assert again.last_plan is not None
        assert again.last_plan.sentence.startswith("settling: ")
        await agent.connect(again.agents)
        await pass_time(clock, 20, [agent])
        (route,) = again.fleet.routes()
        assert (route.holds, route.wanted) == (True, 0)
        assert route.reason == "nothing is asked of it: a request starts it"


async def test_load_adds_replicas_and_takes_them_away_by_draining(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        rule = Scaling(in_flight=4, window=10, down_window=60)
        model = cpu_model(replicas=1, max_replicas=3, scaling=rule)
        await plane.catalog.put(model, None, actor="me")
        await settle()
        tells(plane, in_flight=9)
        await pass_time(clock, 9, [agent], every=1)
        assert states(plane) == [READY]
        await pass_time(clock, 4, [agent], every=1)
        assert states(plane) == [READY] * 3
        tells(plane)
        await pass_time(clock, 58, [agent], every=1)
        assert states(plane) == [READY] * 3
        await pass_time(clock, 8, [agent], every=1)
        assert states(plane) == [READY]


async def test_a_new_leader_keeps_what_load_had_added(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    agent = FakeAgent("n1")
    rule = Scaling(in_flight=4, window=0, down_window=600)
    async with running(plane):
        await agent.connect(plane.agents)
        await plane.catalog.put(
            cpu_model(replicas=1, max_replicas=3, scaling=rule), None, actor="me"
        )
        await settle()
        tells(plane, in_flight=12)
        await pass_time(clock, 5, [agent], every=1)
        assert len(states(plane)) == 3
    await agent.sever()
    again = make_plane(clock, store, seed=8)
    async with running(again):
        await pass_time(clock, 4)
        await agent.connect(again.agents)
        await pass_time(clock, 120, [agent])
        assert states(again) == [READY] * 3


async def test_tokens_are_counted_from_what_gateways_total(plane: Plane, clock: FakeClock) -> None:
    counted(plane, 10, 1_000_000)
    (demand,) = plane.loads.demands()
    assert (demand.tokens_per_second, demand.idle_for) == (0.0, None)
    for number in range(1, 7):
        await clock.advance(5)
        counted(plane, 10 + number, 1_000_000 + 500 * number)
    (demand,) = plane.loads.demands()
    assert (demand.tokens_per_second, demand.idle_for) == (100.0, 0.0)
    await clock.advance(60)
    (demand,) = plane.loads.demands()
    assert (demand.tokens_per_second, demand.idle_for) == (0.0, 60.0)
