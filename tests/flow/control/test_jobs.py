"""Serving as a job: a control plane and agents that fetch, until it serves or can't."""

import msgspec
import pytest

from llmgw.control.plane import Plane
from llmgw.model.catalog import Model, Profile
from llmgw.model.commands import HELD, FetchWeights, WeightsState
from llmgw.model.jobs import CANCELLED, DONE, RUNNING, SKIPPED
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.model.node import INSTALLED, INSTALLING, Host, InstalledEngine, Inventory
from llmgw.model.shard import READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import pass_time
from tests.fakes.scripted_agent import FakeAgent
from tests.fakes.scripted_agent import inventory as machine
from tests.flow.control.fetching import FETCHED, URL, Node, at, serve, step
from tests.only import only


def inventory(node: str, *, engine: str) -> Inventory:
    words = "installing llama.cpp" if engine == INSTALLING else None
    seen = InstalledEngine(engine="llamacpp", version="0.10434.0", state=engine, words=words)
    return msgspec.structs.replace(machine(node), engines=(seen,))


pytestmark = pytest.mark.usefixtures("plans_at_once")


async def test_a_model_is_fetched_before_it_is_in_the_catalog_and_serves_in_the_end(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    agent.loads = True
    job = await serve(plane)
    assert at(plane, job) == "fetch"
    assert plane.catalog.entries() == ()
    agent.fetched = 40
    await pass_time(clock, 2, [agent], every=1)
    progress = step(plane, job, "fetch").progress
    assert (progress.words, progress.done, progress.total) == (
        "n1: downloading tiny.gguf",
        40,
        100,
    )
    assert plane.catalog.entries() == ()
    agent.fetched = 100
    await pass_time(clock, 2, [agent], every=1)
    assert at(plane, job) == "ready"
    assert [entry.model.name for entry in plane.catalog.entries()] == ["tiny"]
    assert only(plane.catalog.entries()).changed_by == "ana"
    agent.ready()
    await pass_time(clock, 2, [agent], every=1)
    assert plane.jobs.get(job.id).state == DONE
    assert await plane.store.job(job.id) == plane.jobs.get(job.id)
    assert [entry.action for entry in await plane.store.audit()].count("job.serve") == 1


async def test_several_nodes_fetch_at_once(plane: Plane, clock: FakeClock) -> None:
    agents = Node("n1"), Node("n2")
    for agent in agents:
        await agent.connect(plane.agents)
    profile = Profile(engine="llamacpp", min_memory_gb=9.0, replicas=2)
    job = await serve(plane, Model(name="tiny", source=URL, profiles=(profile,)))
    await pass_time(clock, 3, agents, every=1)
    assert all(agent.asked_to_fetch() >= 3 for agent in agents)
    agents[0].fetched = 100
    await pass_time(clock, 2, agents, every=1)
    assert [part.state for part in step(plane, job, "fetch").parts] == [DONE, RUNNING]
    agents[1].fetched = 100
    await pass_time(clock, 3, agents, every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_weights_that_cannot_be_had_never_reach_the_catalog(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    agent.broken = "tiny.gguf: the server answers 404, it is not there"
    await agent.connect(plane.agents)
    job = await serve(plane)
    failed = plane.jobs.get(job.id)
    assert failed.state == JOB_FAILED
    assert failed.reason == "n1: tiny.gguf: the server answers 404, it is not there"
    assert plane.catalog.entries() == ()
    agent.broken, agent.fetched = None, 100
    again = await plane.jobs.retry(job.id, actor="bo")
    await pass_time(clock, 2, [agent], every=1)
    assert again.id == job.id
    assert plane.jobs.get(job.id).state == DONE
    assert [entry.action for entry in await plane.store.audit()].count("job.retry") == 1


async def test_an_agent_without_the_feature_leaves_fetching_to_its_start(
    plane: Plane, clock: FakeClock
) -> None:
    old = FakeAgent("n1")
    await old.connect(plane.agents)
    job = await serve(plane)
    await pass_time(clock, 1, [old], every=1)
    assert plane.jobs.get(job.id).state == DONE
    skipped = step(plane, job, "fetch")
    assert skipped.state == SKIPPED
    assert "n1 runs llmgw 0.1.0" in skipped.reason
    assert "it fetches when a replica starts there" in skipped.reason
    assert old.requests(FetchWeights) == []


async def test_a_node_that_is_away_is_waited_for_and_one_that_is_lost_is_planned_without(
    plane: Plane, clock: FakeClock
) -> None:
    first, second = Node("n1"), Node("n2")
    await first.connect(plane.agents)
    job = await serve(plane)
    assert at(plane, job) == "fetch"
    await second.connect(plane.agents)
    await first.sever()
    await pass_time(clock, 5, [second], every=1)
    assert at(plane, job) == "fetch"
    assert "n1 has no stream" in step(plane, job, "fetch").reason
    await pass_time(clock, 90, [second], every=1)
    assert [part.name for part in step(plane, job, "fetch").parts] == ["n2"]
    second.fetched = 100
    await pass_time(clock, 3, [second], every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_an_agent_that_does_not_answer_is_stuck_and_is_asked_again(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    agent.silent = True
    await pass_time(clock, 8, [agent], every=1)
    assert "n1 (llmgw 0.1.0) is stuck: asked to fetch weights" in step(plane, job, "fetch").reason
    agent.silent, agent.fetched = False, 100
    await pass_time(clock, 8, [agent], every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_a_job_that_is_cancelled_while_a_node_is_asked_stays_cancelled(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    agent.silent = True
    await pass_time(clock, 2, [agent], every=1)
    await plane.jobs.cancel(job.id, actor="bo")
    await pass_time(clock, 10, [agent], every=1)
    assert plane.jobs.get(job.id).state == CANCELLED
    asked = agent.asked_to_fetch()
    agent.silent, agent.fetched = False, 100
    await pass_time(clock, 10, [agent], every=1)
    assert agent.asked_to_fetch() == asked
    assert plane.catalog.entries() == ()


async def test_two_jobs_go_on_beside_each_other_when_one_of_them_waits(
    plane: Plane, clock: FakeClock
) -> None:
    agent, other = Node("n1"), Node("n2")
    await agent.connect(plane.agents)
    waits = await serve(plane)
    agent.silent = True
    await other.connect(plane.agents)
    await plane.membership.set_wish("n1", "cordoned", actor="ana")
    other.fetched = 100
    done = await serve(plane, msgspec.structs.replace(FETCHED, name="second"))
    await pass_time(clock, 10, [agent, other], every=1)
    assert plane.jobs.get(done.id).state == DONE
    assert plane.jobs.get(waits.id).state == DONE, "it was planned again, without the cordoned node"


async def test_a_job_waits_for_what_is_on_its_way_and_fails_where_nothing_helps(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    agent.inventory = inventory("n1", engine=INSTALLING)
    await agent.connect(plane.agents)
    waiting = await plane.jobs.serve(FETCHED, None, actor="ana")
    await settle()
    assert "installing" in step(plane, waiting, "plan").reason
    agent.say(inventory=inventory("n1", engine=INSTALLED))
    await pass_time(clock, 5, [agent], every=1)
    assert at(plane, waiting) == "fetch"
    huge = Profile(engine="llamacpp", min_memory_gb=100.0)
    job = await serve(plane, Model(name="huge", source=URL, profiles=(huge,)))
    failed = plane.jobs.get(job.id)
    assert failed.state == JOB_FAILED
    assert "16 GB of memory, needs 100" in (failed.reason or "")


async def test_a_job_whose_node_became_too_small_before_it_was_placed_fails(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    small = msgspec.structs.replace(agent.inventory, host=Host(cpus=8, memory_bytes=10**9 // 2))

    def shrinks(request: FetchWeights) -> WeightsState:
        agent.say(inventory=small)
        return WeightsState(state=HELD)

    agent.how_far = shrinks
    await agent.connect(plane.agents)
    job = await serve(plane)
    await pass_time(clock, 6, [agent], every=1)
    failed = plane.jobs.get(job.id)
    assert (failed.state, at(plane, job)) == (JOB_FAILED, "place")
    assert (failed.reason or "").startswith("can't place default: n1: ")
    assert (failed.reason or "").endswith("`llmgw ctl model rm tiny` removes it")


async def test_a_model_that_is_ready_on_a_lost_node_does_not_serve_until_it_is_back(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    agent.fetched = 100
    await agent.connect(plane.agents)
    first = await serve(plane)
    await pass_time(clock, 3, [agent], every=1)
    assert plane.jobs.get(first.id).state == DONE
    await agent.sever()
    await pass_time(clock, 70)
    again = await plane.jobs.serve(FETCHED, None, actor="ana")
    await pass_time(clock, 3)
    assert step(plane, again, "ready").reason == "n1 is lost"
    await agent.connect(plane.agents)
    await pass_time(clock, 3, [agent], every=1)
    assert plane.jobs.get(again.id).state == DONE


async def test_a_start_that_fails_three_times_fails_the_job_and_the_model_stays(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    agent.fetched, agent.fails = 100, "unknown model architecture: 'tiny'"
    await agent.connect(plane.agents)
    job = await serve(plane)
    await pass_time(clock, 40, [agent], every=1)
    failed = plane.jobs.get(job.id)
    assert failed.state == JOB_FAILED
    words = "n1: failed to start it 3 times: unknown model architecture: 'tiny'; tiny stays"
    assert (failed.reason or "").startswith(words)
    assert "tiny stays in the catalog" in (failed.reason or "")
    assert len(plane.catalog.entries()) == 1
    agent.fails = None
    await plane.jobs.retry(job.id, actor="ana")
    await pass_time(clock, 3, [agent], every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_a_start_that_fails_on_one_node_is_tried_on_all_others_before_the_job_fails(
    plane: Plane, clock: FakeClock
) -> None:
    agents = [Node(name) for name in ("n1", "n2", "n3")]
    for agent in agents:
        agent.fetched, agent.fails = 100, "CUDA error: out of memory"
        await agent.connect(plane.agents)
    job = await serve(plane)
    tired: set[str] = set()
    for _ in range(600):
        await pass_time(clock, 1, agents, every=1)
        failures = plane.fleet.shards.failures.all()
        tired = {one.node for one in failures if one.count >= 3}
        if plane.jobs.get(job.id).over:
            break
        if len(tired) == 1:
            assert "tried elsewhere" in (step(plane, job, at(plane, job) or "").reason or "")
    assert tired == {"n1", "n2", "n3"}
    failed = plane.jobs.get(job.id)
    assert failed.state == JOB_FAILED
    told, _, rest = (failed.reason or "").rpartition("; tiny stays in the catalog")
    assert rest
    assert all(name in told for name in tired), told
    assert told.endswith("CUDA error: out of memory")


async def test_a_start_that_fails_on_one_node_serves_from_another(
    plane: Plane, clock: FakeClock
) -> None:
    bad, good = Node("n1"), Node("n2")
    for agent in (bad, good):
        agent.fetched = 100
        await agent.connect(plane.agents)
    bad.fails = "CUDA error: out of memory"
    job = await serve(plane)
    await pass_time(clock, 60, [bad, good], every=1)
    assert plane.jobs.get(job.id).state == DONE
    assert [
        shard.node for one in plane.fleet.replicas() for shard in one.shards if one.state == READY
    ] == ["n2"]
