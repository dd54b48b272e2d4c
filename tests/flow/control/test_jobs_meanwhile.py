"""A job that serves a model, and what people change meanwhile; how many there are."""

import msgspec
import pytest

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.control.jobs import ACTIVE_MOST
from llmgw.control.plane import Plane
from llmgw.model.faulty import Faulty
from llmgw.model.jobs import CANCELLED, DONE
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.store.rules.bounds import JOBS as KEPT
from tests.fakes.clock import FakeClock
from tests.fakes.planes import cpu_model, make_plane, opened, pass_time
from tests.flow.control.fetching import FETCHED, Node, at, serve, step
from tests.only import only

pytestmark = pytest.mark.usefixtures("plans_at_once")


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
