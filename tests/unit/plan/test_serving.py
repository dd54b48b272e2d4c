"""A serving job until its model is in the catalog: each step, and each way to fail."""

import msgspec
import pytest

from llmgw.model.catalog import HubSource
from llmgw.model.commands import CHECKING, FAILED, FETCHING, WeightsState
from llmgw.model.jobs import DONE, QUEUED, RUNNING, SKIPPED, WAITING
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.model.record import Problem
from llmgw.model.shard import Progress
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.records import NEVER, NOT_NOW, NOT_UNLESS_EVICTED
from llmgw.plan.serving.advance import advance, cancelled
from llmgw.plan.serving.records import (
    CATALOG,
    CHECK,
    FETCH,
    PLACE,
    PLAN,
    READY,
    AskNode,
    CannotFetch,
    MakePlan,
    PutModel,
    Seen,
    Silent,
)
from tests.unit.plan.serving_job import (
    BOTH,
    CAN_BE_HAD,
    HERE,
    MODEL,
    OTHER,
    URL,
    Going,
    a_plan,
    a_refusing_plan,
    entry,
    replicas,
)


def fetching(done: int | None = None, total: int | None = None) -> WeightsState:
    progress = Progress(words="downloading tiny.gguf", done_bytes=done, total_bytes=total)
    return WeightsState(state=FETCHING, progress=progress)


def test_a_job_goes_through_all_its_steps_in_order():
    going = Going()
    assert going.job.state == QUEUED
    assert going.on(Seen()) == (MakePlan(model=MODEL),)
    asks = tuple(AskNode(node=node, source=URL, check_only=True) for node in BOTH)
    assert going.on(Seen(plan=a_plan())) == asks
    assert going.step(PLAN).progress.words == "starts 2 replicas"
    assert [part.name for part in going.step(PLAN).parts] == list(BOTH)
    orders = going.answered(CHECK, n1=CAN_BE_HAD, n2=WeightsState(state=CHECKING))
    assert orders == asks[1:]
    asks = tuple(AskNode(node=node, source=URL, check_only=False) for node in BOTH)
    assert going.answered(CHECK, n2=CAN_BE_HAD) == asks
    assert going.answered(FETCH, n1=fetching(5, 10), n2=HERE) == asks[:1]
    progress = going.step(FETCH).progress
    assert (progress.done, progress.total) == (15, 20)
    assert progress.words == "1 of 2 nodes; n1: downloading tiny.gguf"
    assert going.answered(FETCH, n1=HERE) == (PutModel(model=MODEL, expected=0),)
    going.on(Seen(entry=entry(), replicas=replicas("starting")))
    assert going.step(CATALOG).progress.words == "is version 1"
    assert going.at == PLACE
    assert going.step(PLACE).progress.words == "1 of 2 replicas"
    going.on(Seen(entry=entry(), replicas=replicas("starting", "ready")))
    assert going.at == READY
    assert going.step(READY).reason == "tiny-0 is starting"
    assert going.on(Seen(entry=entry(), replicas=replicas("ready", "ready"))) == ()
    assert going.job.state == DONE
    assert [step.state for step in going.job.steps] == [DONE] * 6
    assert going.job.changed == going.now


def test_what_is_over_stays_as_it_is():
    going = Going().to(READY)
    going.on(Seen(entry=entry(), replicas=replicas("ready", "ready")))
    job = going.job
    assert advance(job, Seen(), 99.0) == (job, ())
    ended = cancelled(Going().job, None, actor="bo", now=5.0)
    assert advance(ended, Seen(plan=a_plan()), 99.0) == (ended, ())


# -- plan ------------------------------------------------------------------------------------


def test_nothing_is_planned_before_what_runs_is_known():
    going = Going()
    assert going.on(Seen(settled=False, waiting_for=("n7",))) == ()
    assert going.step(PLAN).reason == "waits until n7 said what they run"


def test_a_model_that_is_not_sound_fails_with_every_problem():
    going = Going()
    problems = (Problem(path="profiles[0].gpus", words="is -1"), Problem(path="name", words="no"))
    going.on(Seen(plan=ModelPlan(model="tiny", problems=problems, words="it is not sound")))
    assert going.job.state == JOB_FAILED
    assert going.job.reason == "it is not sound: profiles[0].gpus: is -1; name: no"
    assert going.step(PLAN).state == JOB_FAILED
    assert going.step(CHECK).state == WAITING


@pytest.mark.parametrize("kinds", [(NEVER,), (NOT_UNLESS_EVICTED, NEVER), ()])
def test_where_no_waiting_helps_the_job_fails_with_what_is_short(kinds):
    going = Going()
    going.on(Seen(plan=a_refusing_plan(*kinds)))
    assert going.job.state == JOB_FAILED
    assert going.job.reason == "can't place default: n1: 8 GB of memory, needs 24"


def test_where_waiting_helps_it_waits_with_the_words_and_is_planned_again():
    going = Going()
    assert going.on(Seen(plan=a_refusing_plan(NEVER, NOT_NOW))) == ()
    assert going.step(PLAN).state == RUNNING
    assert going.step(PLAN).reason == "can't place default: n1: 8 GB of memory, needs 24"
    assert going.on(Seen()) == (MakePlan(model=MODEL),)
    assert going.step(PLAN).reason is not None
    going.on(Seen(plan=a_plan()))
    assert going.step(PLAN).reason is None
    assert going.at == CHECK


def test_a_slow_processor_is_said_with_the_plan():
    going = Going()
    going.on(Seen(plan=a_plan(warnings=("about 2.1 tokens/s on the CPU",))))
    assert going.step(PLAN).progress.words == "starts 2 replicas; about 2.1 tokens/s on the CPU"


# -- check source and fetch ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "nodes", "words"),
    [
        (msgspec.structs.replace(MODEL, source=None), BOTH, "its engine needs no weights"),
        (MODEL, (), "no replica has to be started for it"),
    ],
)
def test_nothing_is_fetched_where_there_is_nothing_to_fetch(model, nodes, words):
    going = Going(model)
    assert going.on(Seen(plan=a_plan(nodes))) == (PutModel(model=model, expected=0),)
    for name in (CHECK, FETCH):
        assert (going.step(name).state, going.step(name).reason) == (SKIPPED, words)


def test_a_source_that_cannot_be_had_never_reaches_the_catalog():
    going = Going(msgspec.structs.replace(MODEL, source=HubSource(repository="a/b")))
    going.on(Seen(plan=a_plan()))
    failed = WeightsState(state=FAILED, words="fetches no weights from the hub yet")
    assert going.answered(CHECK, n1=failed, n2=failed) == ()
    assert going.job.state == JOB_FAILED
    words = "n1: fetches no weights from the hub yet; n2: fetches no weights from the hub yet"
    assert going.job.reason == words
    assert going.step(CATALOG).state == WAITING


def test_what_nodes_hold_is_not_asked_for_again():
    going = Going()
    going.on(Seen(plan=a_plan()))
    orders = going.answered(CHECK, n1=HERE, n2=CAN_BE_HAD)
    assert orders == (AskNode(node="n2", source=URL, check_only=False),)
    going = Going()
    going.on(Seen(plan=a_plan()))
    assert going.answered(CHECK, n1=HERE, n2=HERE) == (PutModel(model=MODEL, expected=0),)
    assert going.step(FETCH).state == SKIPPED
    assert going.step(FETCH).reason == "held by n1, n2 already"


def test_an_agent_that_does_not_fetch_on_request_is_left_to_its_start():
    going = Going()
    going.on(Seen(plan=a_plan()))
    old = CannotFetch("n1 runs llmgw 0.1.0, which can't look for weights")
    orders = going.answered(CHECK, n1=old, n2=CAN_BE_HAD)
    assert orders == (AskNode(node="n2", source=URL, check_only=False),)
    assert going.step(CHECK).state == DONE
    going.answered(FETCH, n2=HERE)
    assert (going.step(FETCH).state, going.step(FETCH).reason) == (DONE, old.words)
    going = Going()
    going.on(Seen(plan=a_plan()))
    assert going.answered(CHECK, n1=old, n2=old) == (PutModel(model=MODEL, expected=0),)
    assert going.step(FETCH).state == SKIPPED


def test_a_node_that_does_not_answer_is_waited_for_with_the_reason():
    going = Going().to(FETCH)
    orders = going.answered(FETCH, n1=Silent("n1 is stuck"), n2=HERE)
    assert orders == (AskNode(node="n1", source=URL, check_only=False),)
    assert going.step(FETCH).reason == "n1 is stuck"
    going.answered(FETCH, n1=fetching(1))
    assert going.step(FETCH).reason is None
    assert going.step(FETCH).progress.total is None


def test_a_node_that_is_gone_has_all_planned_again():
    going = Going().to(FETCH)
    assert going.answered(FETCH, n1=Silent("n1 is lost", gone=True), n2=fetching(1)) == ()
    assert going.at == PLAN
    assert going.step(PLAN).reason == "planned again: n1 is lost"
    assert going.step(FETCH).parts == ()
    going.on(Seen(plan=a_plan(("n2", "n3"))))
    assert [part.name for part in going.step(CHECK).parts] == ["n2", "n3"]


def test_a_fetch_that_fails_fails_the_job_in_the_nodes_words():
    going = Going().to(FETCH)
    going.answered(FETCH, n1=fetching(1), n2=WeightsState(state=FAILED, words="1 GB free, needs 2"))
    assert going.job.reason == "n2: 1 GB free, needs 2"
    assert [part.state for part in going.step(FETCH).parts] == [RUNNING, JOB_FAILED]


def test_answers_of_another_step_are_not_taken():
    going = Going().to(FETCH)
    going.answered(CHECK, n1=HERE, n2=HERE)
    assert going.at == FETCH
    assert going.step(FETCH).parts[0].state == WAITING


# -- catalog ---------------------------------------------------------------------------------


def test_a_model_that_somebody_changed_meanwhile_is_not_written_over():
    going = Going(version=2).to(CATALOG)
    assert going.on(Seen(entry=entry(OTHER, 3))) == ()
    assert going.job.state == JOB_FAILED
    assert going.job.reason == (
        "bo changed tiny since the job began, it is at version 3 now (generation: 0 -> 9); "
        "this job leaves it as it is"
    )
    assert going.job.hint == (
        "serve what is there: llmgw ctl model serve tiny; or put yours over it: "
        "serve your file again"
    )
    going = Going(version=2).to(CATALOG)
    going.on(Seen(entry=None))
    assert "taken out of the catalog" in (going.job.reason or "")
    assert "llmgw ctl model serve FILE" in (going.job.hint or "")


@pytest.mark.parametrize("step", [PLAN, CHECK, FETCH])
def test_nothing_more_is_fetched_for_what_can_not_be_put_into_the_catalog_any_more(step):
    going = Going(version=2).to(step)
    assert going.on(Seen(plan=a_plan(), entry=entry(OTHER, 3))) == ()
    assert going.job.state == JOB_FAILED
    assert going.step(step).state == JOB_FAILED
    assert (going.job.reason or "").startswith("bo changed tiny since the job began")


def test_a_put_that_came_too_late_says_who_was_first_and_not_the_store():
    going = Going().to(CATALOG)
    going.on(Seen(not_put="tiny is at version 1, not 0", entry=entry(OTHER, 1)))
    assert (going.job.reason or "").startswith("bo changed tiny since the job began")


def test_what_the_catalog_says_is_why_it_failed():
    going = Going().to(CATALOG)
    assert going.on(Seen()) == (PutModel(model=MODEL, expected=0),)
    going.on(Seen(not_put="tiny: is in the catalog already, at version 1"))
    assert going.job.reason == "tiny: is in the catalog already, at version 1"


def test_a_model_that_the_catalog_has_as_it_is_stays_so():
    going = Going(version=3)
    going.on(Seen(plan=a_plan((), warnings=()), entry=entry(version=3)))
    step = going.step(CATALOG)
    assert (step.state, step.reason) == (SKIPPED, "the catalog has it as version 3 already")
    assert going.at == PLACE


def test_a_leader_that_died_after_it_put_the_model_is_followed_by_one_that_goes_on():
    going = Going(version=2).to(CATALOG)
    going.on(Seen(entry=entry(OTHER, 2)))
    assert going.step(CATALOG).state == RUNNING
    going.on(Seen(entry=entry(version=3)))
    assert (going.step(CATALOG).state, going.at) == (DONE, PLACE)
