"""A serving job and people: what they change meanwhile, how long it may take, cancel and retry."""

import msgspec
import pytest

from llmgw.model.catalog import Profile
from llmgw.model.commands import FAILED, WeightsState
from llmgw.model.jobs import CANCELLED, DONE, QUEUED, RUNNING, WAITING
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.plan.serving.advance import cancelled, current, hopeless, retried
from llmgw.plan.serving.records import (
    CATALOG,
    FETCH,
    PLACE,
    PLAN,
    READY,
    STEPS,
    AskNode,
    MakePlan,
    Seen,
)
from tests.unit.plan.serving_job import HERE, MODEL, OTHER, URL, Going, a_plan, entry, replicas


def test_a_model_that_is_taken_out_while_it_starts_fails_the_job():
    going = Going().to(READY)
    going.on(Seen(replicas=replicas("ready", "ready")))
    words = "tiny was taken out of the catalog since the job began; `llmgw ctl audit` says by whom"
    assert going.job.reason == words
    assert "llmgw ctl model serve FILE" in (going.job.hint or "")


@pytest.mark.parametrize("step", [PLACE, READY])
def test_a_change_of_how_many_are_wanted_goes_on_with_that_and_says_whose_it_is(step):
    going = Going().to(step)
    three = msgspec.structs.replace(MODEL.profiles[0], replicas=3, priority=5)
    scaled = entry(msgspec.structs.replace(MODEL, profiles=(three,)), 2)
    going.on(Seen(entry=scaled, replicas=replicas("ready", "ready")))
    assert going.job.state == RUNNING
    words = going.step(step).progress.words
    assert words == (
        "2 of 3 replicas; bo changed profiles[0].replicas: 2 -> 3, profiles[0].priority: 0 -> 5"
    )
    going.on(Seen(entry=scaled, replicas=replicas("ready", "ready", "ready")))
    assert going.job.state == DONE
    assert "stays in the catalog" in (
        cancelled(Going().to(step).job, scaled, actor="bo", now=9.0).reason or ""
    )


@pytest.mark.parametrize("step", [PLACE, READY])
def test_a_change_of_what_is_started_ends_the_job_with_what_to_do(step):
    going = Going().to(step)
    going.on(Seen(entry=entry(OTHER, 2), replicas=replicas("ready", "ready")))
    assert going.job.state == JOB_FAILED
    assert going.job.reason == (
        "bo changed tiny since the job began, it is at version 2 now (generation: 0 -> 9); "
        "what this job started gives way to it"
    )
    assert "serve what is there: llmgw ctl model serve tiny" in (going.job.hint or "")


# -- a stopped cluster, and a limit ----------------------------------------------------------


def test_nothing_is_planned_while_the_cluster_is_stopped_and_it_says_so():
    going = Going()
    stopped = Seen(stopped=True, settled=False, waiting_for=("n1",), plan=a_plan())
    assert going.on(stopped) == ()
    assert going.at == PLAN
    words = "waits: the cluster is stopped; `llmgw start` lets it serve"
    assert going.step(PLAN).reason == words
    assert going.step(PLAN).progress is None
    assert going.on(Seen()) == (MakePlan(model=MODEL),)
    assert going.step(PLAN).reason == words, "until it is planned"
    going.on(Seen(plan=a_plan()))
    assert going.step(PLAN).reason is None


@pytest.mark.parametrize("step", [PLACE, READY])
def test_what_is_about_to_be_stopped_does_not_count_as_served(step):
    going = Going().to(step)
    going.on(Seen(entry=entry(), replicas=replicas("ready", "ready"), stopped=True))
    assert going.job.state == RUNNING
    assert going.step(step).reason == "the cluster is stopped; `llmgw start` lets it serve"
    assert going.at == step


@pytest.mark.parametrize("step", STEPS)
def test_a_job_fails_when_the_time_is_over_that_it_was_given(step):
    going = Going(within=100.0).to(step)
    seen = Seen(entry=entry() if step in (PLACE, READY) else None, stopped=True)
    going.now = 98.0
    going.on(seen)
    assert going.job.state == RUNNING
    orders = going.on(seen)
    assert orders == ()
    assert going.job.state == going.step(step).state == JOB_FAILED
    assert (going.job.reason or "").startswith("does not serve within 1m40s")
    assert ("stays in the catalog" in (going.job.reason or "")) == (step in (PLACE, READY))
    again = retried(going.job, now=500.0)
    assert again.until == 600.0


def test_a_job_that_is_done_in_the_last_moment_is_done():
    going = Going(within=100.0).to(READY)
    going.now = 99.0
    going.on(Seen(entry=entry(), replicas=replicas("ready", "ready")))
    assert going.job.state == DONE


# -- what is no use to try again -------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_trying_again_is_no_help_where_somebody_else_changed_what_is_served(step):
    going = Going(version=2).to(step)
    there = step in (PLACE, READY)
    assert hopeless(going.job, entry(version=3) if there else going.before) is None
    for other in (entry(OTHER, 4), None):
        no = hopeless(going.job, other)
        assert no is not None
        assert no[1].startswith("serve ")


def test_a_model_of_which_none_is_wanted_is_done_once_it_is_in_the_catalog():
    model = msgspec.structs.replace(MODEL, profiles=(Profile(engine="llamacpp", replicas=0),))
    going = Going(model)
    going.on(Seen(plan=a_plan(())))
    going.on(Seen(entry=entry(model)))
    assert going.job.state == DONE
    assert going.step(READY).progress.words == "no replica is wanted"


# -- cancel and retry ------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_a_cancelled_job_says_whether_the_model_stays(step):
    going = Going().to(step)
    ended = cancelled(going.job, entry(), actor="bo", now=50.0)
    assert (ended.state, ended.changed) == (CANCELLED, 50.0)
    in_catalog = STEPS.index(step) >= STEPS.index(CATALOG)
    assert (ended.reason or "").startswith("cancelled by bo")
    assert ("stays in the catalog" in (ended.reason or "")) == in_catalog
    out = cancelled(going.job, None, actor="bo", now=50.0)
    assert out.reason == "cancelled by bo"


@pytest.mark.parametrize("step", STEPS)
def test_a_job_that_is_tried_again_goes_on_from_where_it_was(step):
    going = Going().to(step)
    before = going.job.steps[: STEPS.index(step)]
    ended = cancelled(going.job, None, actor="bo", now=50.0)
    again = retried(ended, now=60.0)
    assert (again.id, again.state, again.reason) == ("j1", QUEUED, None)
    assert again.steps[: STEPS.index(step)] == before
    found = current(again)
    assert found is not None
    assert (found.name, found.state) == (step, WAITING)


def test_a_fetch_that_is_tried_again_asks_only_nodes_that_are_not_done():
    going = Going().to(FETCH)
    going.answered(FETCH, n1=HERE, n2=WeightsState(state=FAILED, words="no room"))
    going.job = retried(going.job, now=9.0)
    assert going.on(Seen()) == (AskNode(node="n2", source=URL, check_only=False),)
