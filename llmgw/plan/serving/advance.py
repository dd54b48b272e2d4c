"""`advance`: a serving job's next state and its orders, from the job and what is seen.

Nothing but the job is remembered between two calls, so that any leader goes on from the stored
one. Whatever is ordered may be lost or done twice: the next call orders it again, or sees it done.
"""

from collections.abc import Callable, Mapping

import msgspec

from llmgw.base.units import show_seconds
from llmgw.model.catalog import CatalogEntry
from llmgw.model.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    SKIPPED,
    WAITING,
    Job,
    JobStep,
    ServeJob,
)
from llmgw.plan.serving import meanwhile, steps, weights
from llmgw.plan.serving.records import (
    CATALOG,
    CHECK,
    FETCH,
    PLACE,
    PLAN,
    READY,
    STEPS,
    Order,
    Seen,
    Turn,
)

_OVER = frozenset({DONE, SKIPPED})

_HANDLERS: Mapping[str, Callable[[Job, JobStep, Seen], Turn]] = {
    PLAN: steps.plan,
    CHECK: weights.check,
    FETCH: weights.fetch,
    CATALOG: steps.catalog,
    PLACE: steps.place,
    READY: steps.ready,
}


def begin(job_id: str, spec: ServeJob, *, actor: str, now: float) -> Job:
    """Return a new job of which nothing is done yet. `now`: seconds since the epoch."""
    return Job(
        id=job_id,
        subject=spec.model.name,
        actor=actor,
        created=now,
        changed=now,
        until=_until(spec, now),
        steps=_unbegun(),
        spec=spec,
    )


def advance(job: Job, seen: Seen, now: float) -> tuple[Job, tuple[Order, ...]]:
    """Return what a job is now, and what is to be done for it.

    Args:
        job: as it is stored.
        seen: the fleet, and what came of the job's last orders.
        now: seconds since the epoch.
    """
    orders: tuple[Order, ...] = ()
    after = job
    while not after.over and not orders:
        step = current(after)
        if step is None:
            after = msgspec.structs.replace(after, state=DONE, reason=None)
            break
        turn = _turn(after, step, seen)
        if turn.plan_again is not None:
            after = _planned_again(after, turn.plan_again)
            break
        after, orders = _with(after, turn.step), turn.orders
        if turn.step.state == FAILED:
            after = _failed(after, turn)
        elif turn.step.state not in _OVER:
            break
    if not after.over and after.until is not None and now >= after.until:
        after, orders = _too_late(after), ()
    if after != job:
        after = msgspec.structs.replace(after, changed=now)
    return after, orders


def _turn(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Let a step take its turn; one before the catalog's ends where that could not be done."""
    early = step.name in (PLAN, CHECK, FETCH)
    changed = steps.changed(job, step, seen) if early else None
    return changed or _HANDLERS[step.name](job, step, seen)


def _failed(job: Job, turn: Turn) -> Job:
    return msgspec.structs.replace(job, state=FAILED, reason=turn.step.reason, hint=turn.hint)


def _too_late(job: Job) -> Job:
    """Return a job as it is when the time is over that it was given."""
    step = current(job)
    words = f"does not serve within {show_seconds(job.spec.within)}"
    if step is None:
        return msgspec.structs.replace(job, state=FAILED, reason=words)
    words = f"{words}: {step.reason}" if step.reason else words
    if step.name in (PLACE, READY):
        words = f"{words}; {steps.stays(job.subject)}"
    step = steps.failed(step, words)
    return _failed(_with(job, step), Turn(step))


def current(job: Job) -> JobStep | None:
    """Return the step that a job is at; None when all are done."""
    return next((step for step in job.steps if step.state not in _OVER), None)


def cancelled(job: Job, entry: CatalogEntry | None, *, actor: str, now: float) -> Job:
    """Return a job that goes no further; what is in the catalog already stays there.

    Args:
        job: one that goes on.
        entry: what the catalog has under the model's name.
        actor: who cancels it.
        now: seconds since the epoch.
    """
    words = f"cancelled by {actor}"
    step = current(job)
    past = step is not None and step.name in (CATALOG, PLACE, READY)
    if past and entry is not None and meanwhile.another(job, entry) is None:
        words = f"{words}; {steps.stays(job.subject)}"
    if step is not None:
        job = _with(job, msgspec.structs.replace(step, state=CANCELLED))
    return msgspec.structs.replace(job, state=CANCELLED, reason=words, changed=now)


def retried(job: Job, *, now: float) -> Job:
    """Return a job that failed or was cancelled as one that goes on from the step it was at."""
    step = current(job)
    if step is not None:
        parts = tuple(
            msgspec.structs.replace(part, state=WAITING, progress=None, reason=None)
            if part.state not in _OVER
            else part
            for part in step.parts
        )
        job = _with(
            job,
            msgspec.structs.replace(step, state=WAITING, progress=None, reason=None, parts=parts),
        )
    until = _until(job.spec, now)
    return msgspec.structs.replace(
        job, state=QUEUED, reason=None, hint=None, until=until, changed=now
    )


def hopeless(job: Job, entry: CatalogEntry | None) -> tuple[str, str] | None:
    """Return why trying a job again is no help, and what is; None when it may be."""
    step = current(job)
    if step is not None and step.name in (PLACE, READY):
        words = meanwhile.gone(job) if entry is None else meanwhile.another(job, entry)
    else:
        words = meanwhile.in_the_way(job, entry)
    return None if words is None else (words, meanwhile.what_to_do(job, entry))


def _until(spec: ServeJob, now: float) -> float | None:
    return None if spec.within is None else now + spec.within


def _unbegun() -> tuple[JobStep, ...]:
    return tuple(JobStep(name=name) for name in STEPS)


def _planned_again(job: Job, why: str) -> Job:
    """Return a job that is at its plan again; nothing that it did is to be undone."""
    first, *rest = _unbegun()
    words = f"planned again: {why}"
    first = msgspec.structs.replace(first, state=RUNNING, reason=words)
    return msgspec.structs.replace(job, state=RUNNING, steps=(first, *rest))


def _with(job: Job, step: JobStep) -> Job:
    changed = tuple(step if one.name == step.name else one for one in job.steps)
    return msgspec.structs.replace(job, state=RUNNING, steps=changed)
