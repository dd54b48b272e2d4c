"""Priorities in a whole control plane: said, counted, drained, and placed when the room is free."""

import pytest

from llmgw.control.metrics.collector import gather, render
from llmgw.control.plane import Plane
from llmgw.model.gateway import LoadReport, ReplicaLoad
from llmgw.model.replica import DRAINING
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, make_plane, pass_time, running, says
from tests.fakes.scripted_agent import FakeAgent


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock)


async def test_a_running_replica_of_lower_priority_is_drained_for_a_higher_one(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("g1", devices=1)
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model("batch", gpus=1), None, actor="me")
        await settle()
        (batch,) = plane.fleet.replicas()
        busy = (ReplicaLoad(replica=batch.id, in_flight=1),)
        says(plane, LoadReport(gateway="gw-1", replicas=busy))
        await plane.catalog.put(cpu_model("chat", gpus=1, priority=5), None, actor="me")
        await pass_time(clock, 60, [agent])
        assert [(one.model, one.state) for one in plane.fleet.replicas()] == [("batch", DRAINING)]
        told = [one.words for one in plane.events.recent() if one.kind == "placement"]
        assert told[-1] == (
            f"pre-empts {batch.id}: its priority is 0, "
            "and chat (priority 5) can't be placed otherwise"
        )
        page = render(gather(plane)).decode()
        assert 'llmgw_preemptions_total{model="batch"} 1' in page
        assert "llmgw_evictions_total{" not in page
        assert "llmgw_mass_loss_nodes 0" in page
        says(plane, LoadReport(gateway="gw-1"))
        await pass_time(clock, 5, [agent], every=1)
        assert [one.model for one in plane.fleet.replicas()] == ["chat"]
        assert plane.executor.preemptions == {"batch": 1}


async def test_a_replica_with_nothing_to_do_is_evicted(plane: Plane, clock: FakeClock) -> None:
    async with running(plane):
        agent = FakeAgent("g1", devices=1)
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model("batch", gpus=1), None, actor="me")
        await pass_time(clock, 90, [agent])
        await plane.catalog.put(cpu_model("chat", gpus=1, priority=5), None, actor="me")
        await pass_time(clock, 8, [agent], every=1)
        assert [one.model for one in plane.fleet.replicas()] == ["chat"]
        assert 'llmgw_evictions_total{model="batch"} 1' in render(gather(plane)).decode()
