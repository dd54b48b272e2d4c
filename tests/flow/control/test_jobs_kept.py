"""Who follows a job, what the store is told of it, and a leader that changes meanwhile."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from llmgw.base.errors import Refused
from llmgw.control.jobs import Jobs
from llmgw.control.plane import Plane
from llmgw.model.commands import FetchWeights
from llmgw.model.feed import JOBS, JsonChange
from llmgw.model.jobs import DONE, RUNNING, Job
from llmgw.store.interface import Store
from llmgw.store.memory import Memory
from tests.fakes.clock import FakeClock
from tests.fakes.planes import cpu_model, pass_time
from tests.flow.control.fetching import Node, at, serve, step
from tests.flow.control.heads import Head, until
from tests.only import only

pytestmark = pytest.mark.usefixtures("plans_at_once")


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
