"""Whatever a serving job sees, any leader goes on from the stored job."""

from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import PathSource
from llmgw.model.jobs import DONE, SKIPPED, Job, ServeJob
from llmgw.model.jobs import FAILED as JOB_FAILED
from llmgw.plan.records import FITS, NEVER, NOT_NOW
from llmgw.plan.serving.advance import advance, begin
from llmgw.plan.serving.records import CHECK, FETCH, PLAN, STEPS, AskNode, PutModel, Seen
from tests.unit.plan.serving_job import (
    MODEL,
    OTHER,
    a_failure,
    a_plan,
    a_refusing_plan,
    answers,
    entry,
    judged,
    refused,
    replicas,
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
