"""A serving job from the catalog until it serves: refusals, lost nodes, failed starts."""

from dataclasses import replace

import msgspec
import pytest

from llmgw.model.jobs import DONE, RUNNING
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.settings import Settings
from llmgw.plan.records import FITS, NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Desired, Plan, Refusal
from llmgw.plan.serving.advance import retried
from llmgw.plan.serving.records import PLACE, READY, Forgive, JudgeNodes, Seen
from llmgw.plan.serving.refused import Never, follow, for_good
from tests.unit.plan.serving_job import (
    MODEL,
    Going,
    a_failure,
    a_plan,
    entry,
    judged,
    refused,
    replicas,
)

# -- place and ready -------------------------------------------------------------------------


def test_while_it_waits_for_room_the_refusal_is_the_reason():
    going = Going().to(PLACE)
    going.on(Seen(entry=entry(), refusals=(refused(NEVER),)))
    assert going.step(PLACE).reason == "can't place default: n1: 8 GB of memory, needs 24"
    assert going.job.state == RUNNING
    going.on(Seen(entry=entry(), stopped=True))
    assert going.step(PLACE).reason == "the cluster is stopped; `llmgw start` lets it serve"


@pytest.mark.parametrize("step", [PLACE, READY])
def test_what_plan_after_plan_refuses_for_good_fails_the_job_in_its_words(step):
    never = (refused(NEVER),)
    going = Going().to(step)
    going.on(Seen(entry=entry(), refusals=never))
    assert going.job.state == RUNNING, "one plan is not enough"
    going.on(Seen(entry=entry(), refusals=never, for_good=never, stopped=True))
    assert going.job.state == RUNNING, "nothing is placed while the cluster is stopped"
    for state in ("starting", "draining", None):
        there = replicas(state)
        going.on(Seen(entry=entry(), replicas=there, refusals=never, for_good=never))
        assert going.job.state == RUNNING, f"one is {state}: what holds now may change"
    going.on(Seen(entry=entry(), replicas=replicas("ready"), refusals=never, for_good=never))
    assert going.job.state == JOB_FAILED
    assert going.job.reason == f"can't place default: n1: 8 GB of memory, needs 24; {STAYS}"


def test_a_refusal_of_what_is_there_already_fails_no_job():
    never = (refused(NEVER),)
    going = Going().to(PLACE)
    both = replicas("ready", "ready")
    going.on(Seen(entry=entry(), replicas=both, refusals=never, for_good=never))
    assert going.job.state == DONE


@pytest.mark.parametrize(
    ("kinds", "versions", "refused_for_good"),
    [
        ((NEVER,), (1,), False),
        ((NEVER, NEVER), (1, 1), True),
        ((NEVER, NEVER), (1, 2), False),
        ((NEVER, NOT_NOW, NEVER), (1, 1, 1), False),
        ((NEVER, NOT_UNLESS_EVICTED), (1, 1), False),
        ((NEVER, None, NEVER), (1, 1, 1), False),
        ((NOT_NOW, NEVER, NEVER), (1, 1, 1), True),
    ],
)
def test_two_plans_in_a_row_say_that_waiting_is_no_help(kinds, versions, refused_for_good):
    never: Never = {}
    refusals: tuple[Refusal, ...] = ()
    for kind, version in zip(kinds, versions, strict=True):
        refusals = () if kind is None else (refused(NEVER, kind),)
        plan = Plan(number=1, parent=None, refusals=refusals, sentence="")
        never = follow(never, plan, Desired(models=(entry(version=version),), settings=Settings()))
    assert bool(for_good(refusals, never, entry(version=versions[-1]))) == refused_for_good
    assert for_good(refusals, never, entry(version=9)) == ()
    assert for_good(refusals, never, None) == ()


@pytest.mark.parametrize("nodes", [("n1",), ("n2", "n1")])
def test_what_is_ready_on_a_lost_node_does_not_serve(nodes):
    shards = tuple(ReplicaShard(rank=rank, node=node) for rank, node in enumerate(nodes))
    ready, other = replicas("ready", "ready")
    there = (msgspec.structs.replace(ready, shards=shards), other)
    going = Going().to(READY)
    assert going.on(Seen(entry=entry(), replicas=there, lost=frozenset({"n1"}))) == ()
    assert (going.job.state, going.step(READY).progress.done) == (RUNNING, 1)
    assert going.step(READY).reason == "n1 is lost"
    going.on(Seen(entry=entry(), replicas=there))
    assert going.job.state == DONE


def test_what_is_on_a_lost_node_may_still_return_though_no_other_node_is_left():
    seen = Seen(
        entry=entry(),
        replicas=starting_on("n2", state="ready"),
        failures=(a_failure(),),
        judged=judged(n1=NEVER),
        lost=frozenset({"n2"}),
    )
    going = Going().to(READY)
    going.on(seen)
    assert going.job.state == RUNNING


def test_replicas_of_another_fingerprint_and_those_that_leave_do_not_count():
    older = replicas("ready", "ready", model=msgspec.structs.replace(MODEL, generation=1))
    going = Going().to(PLACE)
    leaving = replicas("draining", "failed", "stopped", "starting")
    going.on(Seen(entry=entry(), replicas=(*older, *leaving)))
    assert going.step(PLACE).progress.done == 1


def starting_on(*nodes: str, state: str = "starting") -> tuple[Replica, ...]:
    return tuple(
        msgspec.structs.replace(one, shards=(ReplicaShard(rank=0, node=node),))
        for one, node in zip(replicas(*[state] * len(nodes)), nodes, strict=True)
    )


FAILS = "n1: failed to start it 3 times: CUDA error: out of memory"
STAYS = "tiny stays in the catalog; `llmgw ctl model rm tiny` removes it"


@pytest.mark.parametrize("step", [PLACE, READY])
@pytest.mark.parametrize("kind", [FITS, NOT_NOW])
def test_three_failed_starts_on_a_node_are_tried_elsewhere_while_anything_is_left(step, kind):
    going = Going().to(step)
    seen = Seen(entry=entry(), replicas=starting_on("n1"), failures=(a_failure(),))
    assert going.on(seen) == (JudgeNodes(model="tiny"),)
    left = replace(seen, judged=judged(n1=NEVER, n2=kind, n3=NEVER))
    assert going.on(left) == ()
    assert going.job.state == RUNNING
    words = "tried elsewhere: n1 passed over after 3 failed starts"
    assert words in going.step(step).reason


@pytest.mark.parametrize("step", [PLACE, READY])
@pytest.mark.parametrize("kind", [NEVER, NOT_UNLESS_EVICTED])
def test_a_job_fails_once_nothing_is_left_to_try_and_the_model_stays(step, kind):
    going = Going().to(step)
    seen = Seen(entry=entry(), replicas=starting_on("n1"), failures=(a_failure(),))
    going.on(replace(seen, judged=judged(n1=NEVER, n2=kind)))
    assert going.job.state == JOB_FAILED
    assert going.job.reason == f"{FAILS}; nowhere else: n2: 8 GB; {STAYS}"
    assert going.job.hint is None


def test_nothing_is_said_of_other_nodes_where_there_are_none():
    going = Going().to(PLACE)
    going.on(Seen(entry=entry(), failures=(a_failure(),), judged=judged(n1=NEVER)))
    assert going.job.reason == f"{FAILS}; {STAYS}"


def test_what_is_being_tried_on_a_fresh_node_is_waited_for_though_no_other_is_left():
    going = Going().to(PLACE)
    failures = (a_failure(),)
    held = judged(n1=NEVER, n2=NOT_UNLESS_EVICTED)
    going.on(
        Seen(entry=entry(), replicas=starting_on("n2"), failures=failures, judged=held),
    )
    assert going.job.state == RUNNING
    ready = starting_on("n2", state="ready")
    going.on(Seen(entry=entry(), replicas=ready, failures=failures, judged=held))
    assert going.job.state == JOB_FAILED, "one of two serves, and the other has no place left"


def test_what_served_and_ended_again_and_again_is_said_so():
    going = Going().to(READY)
    served = msgspec.structs.replace(a_failure(4), served=True)
    going.on(Seen(entry=entry(), failures=(served,), judged=judged(n1=NEVER)))
    assert "n1: it ended there 4 times by itself: CUDA" in (going.job.reason or "")


def test_what_several_nodes_say_alike_is_said_once():
    going = Going().to(PLACE)
    failures = [msgspec.structs.replace(a_failure(), node=f"n{number}") for number in range(1, 6)]
    other = msgspec.structs.replace(a_failure(4), node="n6", words="no such file")
    never = judged(**{f"n{number}": NEVER for number in range(1, 7)})
    going.on(Seen(entry=entry(), failures=(*failures, other), judged=never))
    assert going.job.reason == (
        "n1, n2, n3 and 2 more: failed to start it 3 times each: CUDA error: out of memory; "
        f"n6: failed to start it 4 times: no such file; {STAYS}"
    )


def test_two_failed_starts_are_nothing_to_ask_about():
    going = Going().to(PLACE)
    assert going.on(Seen(entry=entry(), failures=(a_failure(2),))) == ()
    assert going.job.state == RUNNING


def test_starts_that_failed_while_it_was_placed_are_not_forgiven_when_it_waits_to_be_ready():
    going = Going().to(PLACE)
    failures = (a_failure(),)
    left = judged(n1=NEVER, n2=FITS)
    going.on(Seen(entry=entry(), failures=failures, judged=left))
    both = starting_on("n2", "n3")
    orders = going.on(Seen(entry=entry(), replicas=both, failures=failures))
    assert going.at == READY
    assert orders == (JudgeNodes(model="tiny"),)


def test_a_job_that_is_tried_again_while_it_starts_forgives_what_failed():
    going = Going().to(READY)
    going.on(Seen(entry=entry(), failures=(a_failure(),), judged=judged(n1=NEVER)))
    assert going.job.state == JOB_FAILED
    going.job = retried(going.job, now=50.0)
    assert going.on(Seen(entry=entry(), failures=(a_failure(),))) == (Forgive(model="tiny"),)


def test_starts_that_failed_before_it_was_asked_for_are_forgiven():
    going = Going(version=3)
    seen = Seen(plan=a_plan(()), entry=entry(version=3), failures=(a_failure(),))
    assert going.on(seen) == (Forgive(model="tiny"),)
    going.on(Seen(entry=entry(version=3)))
    assert going.job.state == RUNNING


def test_failures_elsewhere_are_nothing_to_what_serves():
    going = Going().to(READY)
    ready = replicas("ready", "ready")
    going.on(Seen(entry=entry(), replicas=ready, failures=(a_failure(),)))
    assert going.job.state == DONE
