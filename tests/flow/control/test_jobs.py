"""Serving as a job: a control plane, agents that fetch, and a leader that changes meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.control.jobs import ACTIVE_MOST, Jobs
from llmgw.control.plane import Plane
from llmgw.model.catalog import Model, Profile, UrlSource
from llmgw.model.commands import ABSENT, FAILED, FETCHING, HELD, FetchWeights, WeightsState
from llmgw.model.faulty import Faulty
from llmgw.model.feed import JOBS, JsonChange
from llmgw.model.jobs import CANCELLED, DONE, RUNNING, SKIPPED, Job
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.model.node import INSTALLED, INSTALLING, Host, InstalledEngine, Inventory
from llmgw.model.shard import READY, Progress
from llmgw.plan.serving.advance import current
from llmgw.store.interface import Store
from llmgw.store.memory import Memory
from llmgw.store.rules.bounds import JOBS as KEPT
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time, running
from tests.fakes.scripted_agent import FETCHES, FakeAgent
from tests.fakes.scripted_agent import inventory as machine
from tests.flow.control.test_two_planes import Head, until
from tests.only import only

URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)
FETCHED = Model(name="tiny", source=URL, profiles=(Profile(engine="llamacpp", min_memory_gb=1.0),))


class Node(FakeAgent):
    """An agent that fetches as far as the test lets it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, features=FETCHES)
        self.how_far = self._how_far
        self.fetched = 0
        self.total = 100
        self.broken: str | None = None

    def _how_far(self, request: FetchWeights) -> WeightsState:
        if self.broken is not None:
            return WeightsState(state=FAILED, words=self.broken)
        if self.fetched >= self.total:
            return WeightsState(state=HELD, size_bytes=self.total)
        if request.check_only:
            return WeightsState(state=ABSENT)
        words = "downloading tiny.gguf"
        progress = Progress(words=words, done_bytes=self.fetched, total_bytes=self.total)
        return WeightsState(state=FETCHING, progress=progress)

    def asked_to_fetch(self) -> int:
        requests = self.requests(FetchWeights)
        return sum(1 for one in requests if isinstance(one, FetchWeights) and not one.check_only)


def inventory(node: str, *, engine: str) -> Inventory:
    words = "installing llama.cpp" if engine == INSTALLING else None
    seen = InstalledEngine(engine="llamacpp", version="0.10434.0", state=engine, words=words)
    return msgspec.structs.replace(machine(node), engines=(seen,))


@pytest.fixture(autouse=True)
def _plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make plans where they are asked for: a thread would end in its own time."""

    async def here(make: Callable[..., object], *what: object) -> object:
        return make(*what)

    monkeypatch.setattr(asyncio, "to_thread", here)


@pytest.fixture
async def plane(clock: FakeClock) -> AsyncIterator[Plane]:
    async with running(make_plane(clock)) as made:
        yield made


async def serve(plane: Plane, model: Model = FETCHED, version: int | None = None) -> Job:
    job = await plane.jobs.serve(model, version, actor="ana")
    for _ in range(4):  # a pass takes many turns: plan, check, fetch
        await settle()
    return job


def at(plane: Plane, job: Job) -> str | None:
    step = current(plane.jobs.get(job.id))
    return step.name if step is not None else None


def step(plane: Plane, job: Job, name: str) -> Any:
    return next(one for one in plane.jobs.get(job.id).steps if one.name == name)


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


async def test_a_job_on_a_stopped_cluster_waits_until_it_serves_again(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    agent.fetched = 100
    await agent.connect(plane.agents)
    await plane.settings.put("serving.stopped", True, actor="ana")
    job = await serve(plane)
    await pass_time(clock, 20, [agent], every=1)
    assert at(plane, job) == "plan"
    assert "the cluster is stopped; `llmgw start`" in step(plane, job, "plan").reason
    assert plane.catalog.entries() == ()
    await plane.settings.put("serving.stopped", False, actor="ana")
    await pass_time(clock, 5, [agent], every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_a_job_goes_on_when_somebody_scales_its_model_and_says_so(
    plane: Plane, clock: FakeClock
) -> None:
    agents = Node("n1"), Node("n2")
    for agent in agents:
        agent.fetched, agent.loads = 100, True
        await agent.connect(plane.agents)
    job = await serve(plane)
    await pass_time(clock, 2, agents, every=1)
    assert at(plane, job) == "ready"
    entry = only(plane.catalog.entries())
    two = msgspec.structs.replace(entry.model.profiles[0], replicas=2)
    scaled = msgspec.structs.replace(entry.model, profiles=(two,))
    await plane.catalog.put(scaled, entry.version, actor="bo")
    await pass_time(clock, 3, agents, every=1)
    words = step(plane, job, "ready").progress.words
    assert words == "0 of 2 replicas; bo changed profiles[0].replicas: 1 -> 2"
    for agent in agents:
        agent.ready()
    await pass_time(clock, 3, agents, every=1)
    assert plane.jobs.get(job.id).state == DONE


async def test_a_job_that_is_given_a_time_fails_when_it_is_over(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await plane.jobs.serve(FETCHED, None, actor="ana", within=30.0)
    await pass_time(clock, 28, [agent], every=1)
    assert at(plane, job) == "fetch"
    await pass_time(clock, 4, [agent], every=1)
    failed = plane.jobs.get(job.id)
    assert failed.state == JOB_FAILED
    assert (failed.reason or "").startswith("does not serve within 30s")


async def test_a_model_that_was_changed_meanwhile_is_not_written_over(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    other = cpu_model("tiny", replicas=0)
    await plane.catalog.put(other, None, actor="bo")
    agent.fetched = 100
    await pass_time(clock, 2, [agent], every=1)
    assert "bo changed tiny since the job began" in (plane.jobs.get(job.id).reason or "")
    assert only(plane.catalog.entries()).model == other
    with pytest.raises(Conflict, match="can't go on: bo changed tiny") as refused:
        await plane.jobs.retry(job.id, actor="ana")
    assert "llmgw ctl model serve tiny" in (refused.value.hint or "")


async def test_one_job_a_subject_and_the_first_is_named(plane: Plane) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    with pytest.raises(Conflict, match=f"{job.id} serves tiny already, for ana"):
        await plane.jobs.serve(FETCHED, None, actor="bo")
    with pytest.raises(Conflict, match="the catalog has version 0, not 3"):
        await plane.jobs.serve(cpu_model("other"), 3, actor="bo")
    with pytest.raises(Faulty, match=r"profiles\[0\].gpus"):
        await plane.jobs.serve(cpu_model("wrong", gpus=-1), None, actor="bo")
    ended = await plane.jobs.cancel(job.id, actor="bo")
    assert (ended.state, ended.reason) == (CANCELLED, "cancelled by bo")
    with pytest.raises(Conflict, match="is over already"):
        await plane.jobs.cancel(job.id, actor="bo")
    newer = await plane.jobs.serve(FETCHED, None, actor="bo")
    with pytest.raises(Conflict, match=f"{newer.id} serves tiny already"):
        await plane.jobs.retry(job.id, actor="ana")
    with pytest.raises(Conflict, match="goes on"):
        await plane.jobs.retry(newer.id, actor="ana")
    with pytest.raises(NotFound, match="no job 'none'"):
        await plane.jobs.retry("none", actor="ana")
    assert [entry.action for entry in await plane.store.audit()].count("job.cancel") == 1


async def test_jobs_that_go_on_are_bounded(clock: FakeClock) -> None:
    async with opened(make_plane(clock)) as plane:
        for number in range(ACTIVE_MOST):
            await plane.jobs.serve(cpu_model(f"m{number}"), None, actor="ana")
        with pytest.raises(Refused, match=f"{ACTIVE_MOST} jobs go on"):
            await plane.jobs.serve(cpu_model("more"), None, actor="ana")


async def test_old_jobs_that_are_over_are_dropped_here_as_in_the_store(clock: FakeClock) -> None:
    async with opened(make_plane(clock)) as plane:
        for number in range(KEPT + 3):
            job = await plane.jobs.serve(cpu_model(f"m{number}"), None, actor="ana")
            await plane.jobs.cancel(job.id, actor="ana")
        assert len(plane.jobs.all()) == KEPT
        assert plane.jobs.all() == await plane.store.jobs()


async def test_a_follower_of_jobs_is_told_of_each_step_and_of_progress(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    listing = plane.feed.listing([JOBS])
    assert [change.id for change in listing.changes] == [job.id]
    with plane.feed.follow([JOBS]) as follower:
        await anext(follower)
        agent.fetched = 40
        await pass_time(clock, 1.5, [agent], every=0.5)
        batch = await anext(follower)
    record = only(batch.changes).record
    assert isinstance(record, JsonChange)
    told = json.loads(record.value)
    assert told["steps"][2]["progress"]["done"] == 40


async def test_the_store_is_told_of_steps_at_once_and_of_progress_now_and_then(
    plane: Plane, clock: FakeClock
) -> None:
    agent = Node("n1")
    await agent.connect(plane.agents)
    job = await serve(plane)
    puts = Counted(plane.store)
    plane.jobs._store = puts  # type: ignore[assignment]
    for done in range(30):
        agent.fetched = done
        await pass_time(clock, 1, [agent], every=1)
    assert step(plane, job, "fetch").progress.done == 29
    assert 2 <= puts.jobs <= 4
    agent.fetched = 100
    await pass_time(clock, 3, [agent], every=1)
    assert (await plane.store.job(job.id)).state == DONE


class Counted:
    """A store that counts the jobs that are put."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.jobs = 0

    async def put_job(self, job: Job) -> None:
        self.jobs += 1
        await self._store.put_job(job)


# -- another leader --------------------------------------------------------------------------


@pytest.fixture
async def heads(clock: FakeClock) -> AsyncIterator[tuple[Head, Head]]:
    memory = Memory(clock)
    async with AsyncExitStack() as stack:
        first, second = Head(memory, clock, 1), Head(memory, clock, 2)
        for head in (first, second):
            stack.push_async_callback(head.kill)
            await head.start()
        yield first, second


async def test_a_leader_killed_in_the_middle_of_a_fetch_is_followed_by_one_that_goes_on(
    heads: tuple[Head, Head], clock: FakeClock
) -> None:
    first, second = heads
    agent = Node("n1")
    await agent.connect(first.plane.agents)
    job = await serve(first.plane)
    agent.fetched = 40
    await pass_time(clock, 2, [agent], every=1)
    assert at(first.plane, job) == "fetch"
    await first.kill()
    await agent.sever()
    await until(clock, second)
    assert at(second.plane, job) == "fetch"
    asked = len(agent.requests(FetchWeights))
    await pass_time(clock, 3, every=1)
    assert "n1 has no stream" in step(second.plane, job, "fetch").reason
    await agent.connect(second.plane.agents)
    agent.fetched = 70
    await pass_time(clock, 2, [agent], every=1)
    assert step(second.plane, job, "fetch").progress.done == 70
    later = agent.requests(FetchWeights)[asked:]
    assert later
    assert not any(one.check_only for one in later if isinstance(one, FetchWeights))
    assert second.plane.catalog.entries() == ()
    agent.fetched = 100
    await pass_time(clock, 30, [agent], every=1)
    assert second.plane.jobs.get(job.id).state == DONE
    assert [entry.version for entry in second.plane.catalog.entries()] == [1]


async def test_a_standby_shows_jobs_and_changes_none(
    heads: tuple[Head, Head], clock: FakeClock
) -> None:
    first, second = heads
    agent = Node("n1")
    await agent.connect(first.plane.agents)
    job = await serve(first.plane)
    await pass_time(clock, 15, [agent], every=1)
    assert [one.id for one in second.plane.jobs.all()] == [job.id]
    with pytest.raises(Refused, match="cp-1 leads"):
        await second.plane.jobs.cancel(job.id, actor="eve")
    assert second.plane.jobs.get(job.id).state == RUNNING
    with pytest.raises(Refused, match="cp-1 leads"):
        await second.plane.jobs.serve(cpu_model("other"), None, actor="eve")
    assert isinstance(second.plane.jobs, Jobs)
