"""A serving job: each step, each way to fail, and that any leader goes on from the stored job."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import CatalogEntry, HubSource, Model, PathSource, Profile, UrlSource
from llmgw.model.check import fingerprint
from llmgw.model.commands import ABSENT, CHECKING, FAILED, FETCHING, HELD, WeightsState
from llmgw.model.jobs import CANCELLED, DONE, QUEUED, RUNNING, SKIPPED, WAITING, Job, ServeJob
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.model.record import Problem
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.settings import Settings
from llmgw.model.shard import Progress
from llmgw.plan.estimate import MemoryNeed
from llmgw.plan.modelplan import ModelPlan, PlannedReplica, PlannedShard, ProfilePlan
from llmgw.plan.records import (
    FITS,
    NEVER,
    NOT_NOW,
    NOT_UNLESS_EVICTED,
    Candidate,
    Desired,
    Plan,
    Refusal,
    StartFailure,
    Verdict,
)
from llmgw.plan.serving.advance import (
    advance,
    begin,
    cancelled,
    current,
    hopeless,
    retried,
)
from llmgw.plan.serving.records import (
    CATALOG,
    CHECK,
    FETCH,
    PLACE,
    PLAN,
    READY,
    STEPS,
    Answer,
    AskNode,
    CannotFetch,
    Forgive,
    JudgeNodes,
    MakePlan,
    Order,
    PutModel,
    Seen,
    Silent,
)
from llmgw.plan.serving.refused import Never, follow, for_good

URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)
MODEL = Model(name="tiny", source=URL, profiles=(Profile(engine="llamacpp", replicas=2),))
OTHER = msgspec.structs.replace(MODEL, generation=9)
BOTH = ("n1", "n2")
PROFILE = ProfilePlan(profile="default", wanted=2, there=0, need=MemoryNeed())
CAN_BE_HAD = WeightsState(state=ABSENT)
HERE = WeightsState(state=HELD, size_bytes=10)


def fetching(done: int | None = None, total: int | None = None) -> WeightsState:
    progress = Progress(words="downloading tiny.gguf", done_bytes=done, total_bytes=total)
    return WeightsState(state=FETCHING, progress=progress)


def a_plan(nodes: tuple[str, ...] = BOTH, *, warnings: tuple[str, ...] = ()) -> ModelPlan:
    starts = tuple(
        PlannedReplica(profile="default", shards=(PlannedShard(node=node),), words="")
        for node in nodes
    )
    profile = ProfilePlan(
        profile="default", wanted=2, there=0, need=MemoryNeed(), warnings=warnings
    )
    words = f"starts {len(nodes)} replicas"
    return ModelPlan(model="tiny", profiles=(profile,), starts=starts, fits=True, words=words)


def refused(*kinds: str) -> Refusal:
    candidates = tuple(
        Candidate(node=f"n{number}", verdict=Verdict(kind=kind, rule="memory", words="short"))
        for number, kind in enumerate(kinds, start=1)
    )
    words = "n1: 8 GB of memory, needs 24"
    return Refusal(model="tiny", profile="default", candidates=candidates, words=words)


def a_refusing_plan(*kinds: str) -> ModelPlan:
    profile = msgspec.structs.replace(PROFILE, refusal=refused(*kinds))
    return ModelPlan(model="tiny", profiles=(profile,), words="can't")


def entry(model: Model = MODEL, version: int = 1) -> CatalogEntry:
    return CatalogEntry(model=model, version=version, changed=0.0, changed_by="bo")


def replicas(*states: str | None, model: Model = MODEL) -> tuple[Replica, ...]:
    print_ = fingerprint(model, model.profiles[0])
    return tuple(
        Replica(id=f"tiny-{n}", model="tiny", profile="default", fingerprint=print_, state=state)
        for n, state in enumerate(states)
    )


def a_failure(count: int = 3) -> StartFailure:
    words = "CUDA error: out of memory"
    return StartFailure(model="tiny", node="n1", count=count, last=0.0, words=words)


class Going:
    """A job that is carried on step by step; each time from its stored copy too."""

    def __init__(
        self, model: Model = MODEL, version: int = 0, *, within: float | None = None
    ) -> None:
        spec = ServeJob(model=model, version=version, within=within)
        self.job = begin("j1", spec, actor="ana", now=0.0)
        self.now = 0.0
        self.before = entry(OTHER, version) if version else None

    def on(self, seen: Seen) -> tuple[Order, ...]:
        self.now += 1.0
        stored = msgspec.json.decode(msgspec.json.encode(self.job), type=Job)
        found = advance(self.job, seen, self.now)
        assert advance(stored, seen, self.now) == found
        self.job = found[0]
        return found[1]

    def answered(self, step: str, **answers: Answer) -> tuple[Order, ...]:
        return self.on(Seen(asked=step, answers=answers, entry=self.before))

    def step(self, name: str) -> Any:
        return next(step for step in self.job.steps if step.name == name)

    @property
    def at(self) -> str | None:
        step = current(self.job)
        return step.name if step is not None else None

    def to(self, step: str) -> "Going":
        """Go on to a step with all going well."""
        ways: tuple[Callable[[], object], ...] = (
            lambda: self.on(Seen(plan=a_plan(), entry=self.before)),
            lambda: self.answered(CHECK, n1=CAN_BE_HAD, n2=CAN_BE_HAD),
            lambda: self.answered(FETCH, n1=HERE, n2=HERE),
            lambda: self.on(Seen(entry=entry())),
            lambda: self.on(Seen(entry=entry(), replicas=replicas("starting", "starting"))),
        )
        for way in ways[: STEPS.index(step)]:
            way()
        assert self.at == step
        return self


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


def judged(**kinds: str) -> dict[str, tuple[Candidate, ...]]:
    return {
        "default": tuple(
            Candidate(node=node, verdict=Verdict(kind=kind, rule="x", words=f"{node}: 8 GB"))
            for node, kind in kinds.items()
        )
    }


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


# -- whatever happens ------------------------------------------------------------------------

states = st.sampled_from([HELD, ABSENT, CHECKING, FETCHING, FAILED, "of a later version"])
sizes = st.none() | st.integers(0, 100)
told = st.builds(Progress, words=st.just("downloading"), done_bytes=sizes, total_bytes=sizes)
answers = st.one_of(
    st.builds(WeightsState, state=states, size_bytes=sizes, progress=st.none() | told),
    st.builds(Silent, st.just("silent"), st.booleans()),
    st.just(CannotFetch("old")),
)
entries = st.sampled_from([None, entry(), entry(version=2), entry(OTHER, 1), entry(OTHER, 4)])
seens = st.builds(
    Seen,
    settled=st.booleans(),
    entry=entries,
    replicas=st.lists(
        st.sampled_from(["starting", "ready", "failed", "draining", None]), max_size=3
    ).map(lambda states: replicas(*states)),
    failures=st.sampled_from([(), (a_failure(1),), (a_failure(3),)]),
    plan=st.sampled_from([None, a_plan(), a_plan(()), a_refusing_plan(NOT_NOW), a_plan(("n1",))]),
    asked=st.sampled_from([None, CHECK, FETCH]),
    answers=st.dictionaries(st.sampled_from(("n1", "n2")), answers),
    not_put=st.sampled_from([None, None, "no"]),
    stopped=st.booleans(),
    for_good=st.sampled_from([(), (refused(NEVER),)]),
    judged=st.sampled_from([None, {}, judged(n1=NEVER), judged(n1=NEVER, n2=FITS)]),
)


def _over(job: Job) -> Iterator[str]:
    return (step.name for step in job.steps if step.state in (DONE, SKIPPED))


@given(st.lists(seens, max_size=12), st.integers(0, 2), st.sampled_from([None, 6.0]))
def test_whatever_is_seen_a_stored_job_goes_on_as_the_one_in_memory(seen_each, version, within):
    spec = ServeJob(model=MODEL, version=version, within=within)
    job = begin("j1", spec, actor="ana", now=0.0)
    for now, seen in enumerate(seen_each, start=1):
        stored = msgspec.json.decode(msgspec.json.encode(job), type=Job)
        after, orders = advance(job, seen, float(now))
        assert advance(stored, seen, float(now)) == (after, orders)
        over = list(_over(after))
        assert over == list(STEPS[: len(over)]), "a step was passed over"
        if any(isinstance(order, PutModel) for order in orders):
            assert over == [PLAN, CHECK, FETCH]
        if after.over:
            assert orders == ()
            assert (after.state == JOB_FAILED) == (after.reason is not None)
        elif len(over) < len(list(_over(job))):
            assert over == []
            assert "planned again" in (after.steps[0].reason or "")
        job = after


@given(seens)
def test_path_sources_are_looked_at_like_any_other(seen):
    model = msgspec.structs.replace(MODEL, source=PathSource(path="/m/x.gguf"))
    job = begin("j1", ServeJob(model=model), actor="ana", now=0.0)
    job, _ = advance(job, Seen(plan=a_plan()), 1.0)
    _, orders = advance(job, seen, 2.0)
    for order in orders:
        if isinstance(order, AskNode):
            assert order.source == model.source
