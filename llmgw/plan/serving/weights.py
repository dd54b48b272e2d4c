"""The steps `check source` and `fetch`: all planned nodes at once, each asked until it is done."""

from collections.abc import Sequence

import msgspec

from llmgw.model.commands import ABSENT, FAILED, HELD, WeightsState
from llmgw.model.jobs import (
    DONE,
    RUNNING,
    SKIPPED,
    Job,
    JobPart,
    JobProgress,
    JobStep,
)
from llmgw.model.jobs import FAILED as STEP_FAILED
from llmgw.model.shard import Progress
from llmgw.plan.scaling import on_demand
from llmgw.plan.serving.records import Answer, AskNode, CannotFetch, Seen, Silent, Turn
from llmgw.plan.words import counted, some

_FINAL = frozenset({DONE, SKIPPED, STEP_FAILED})
_CAN_BE_FETCHED = "not here yet, can be fetched"


def check(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Ask the planned nodes whether they have the weights, or can have them."""
    planned = job.steps[0].parts
    if (nothing := _nothing_to_do(job, planned)) is not None:
        return Turn(_skipped(step, nothing))
    parts = step.parts or tuple(JobPart(name=part.name) for part in planned)
    return _asked(job, step, parts, seen, check_only=True)


def fetch(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Have the planned nodes fetch what they do not hold."""
    checked = job.steps[1].parts
    if (nothing := _nothing_to_do(job, checked)) is not None:
        return Turn(_skipped(step, nothing))
    if not step.parts and all(_holds(part) for part in checked):
        names = some([part.name for part in checked])
        return Turn(_skipped(step, f"held by {names} already"))
    return _asked(job, step, step.parts or tuple(map(_begun, checked)), seen, check_only=False)


def _nothing_to_do(job: Job, parts: Sequence[JobPart]) -> str | None:
    if job.spec.model.source is None:
        return "its engine needs no weights"
    if parts:
        return None
    nothing = "no replica has to be started for it"
    return f"{nothing} yet" if any(map(on_demand, job.spec.model.profiles)) else nothing


def _skipped(step: JobStep, words: str) -> JobStep:
    return msgspec.structs.replace(step, state=SKIPPED, reason=words, progress=None)


def _holds(part: JobPart) -> bool:
    return part.progress is not None and part.progress.words == HELD


def _begun(part: JobPart) -> JobPart:
    """Return a node's share of the fetch after its share of the check."""
    if part.state == SKIPPED or _holds(part):
        return part
    return JobPart(name=part.name)


def _asked(
    job: Job, step: JobStep, parts: Sequence[JobPart], seen: Seen, *, check_only: bool
) -> Turn:
    answers = seen.answers if seen.asked == step.name else {}
    for part in parts:
        answer = answers.get(part.name)
        if part.state not in _FINAL and isinstance(answer, Silent) and answer.gone:
            return Turn(step, plan_again=answer.words)
    now = tuple(_answered(part, answers.get(part.name)) for part in parts)
    step = msgspec.structs.replace(step, parts=now, progress=_progress(now), reason=None)
    failed = [f"{part.name}: {part.reason}" for part in now if part.state == STEP_FAILED]
    if failed:
        reason = some(failed, "; ")
        return Turn(msgspec.structs.replace(step, state=STEP_FAILED, reason=reason))
    open_ = [part for part in now if part.state not in _FINAL]
    if not open_:
        return Turn(_over(step))
    waits = some([part.reason for part in open_ if part.reason is not None], "; ")
    source = job.spec.model.source
    orders = [
        AskNode(node=part.name, source=source, check_only=check_only)
        for part in open_
        if source is not None
    ]
    step = msgspec.structs.replace(step, state=RUNNING, reason=waits or None)
    return Turn(step, tuple(orders))


def _over(step: JobStep) -> JobStep:
    skipped = [part.reason or part.name for part in step.parts if part.state == SKIPPED]
    state = SKIPPED if len(skipped) == len(step.parts) else DONE
    return msgspec.structs.replace(step, state=state, reason=some(skipped, "; ") or None)


def _answered(part: JobPart, answer: Answer | None) -> JobPart:
    if part.state in _FINAL or answer is None:
        return part
    match answer:
        case CannotFetch(words=words):
            return msgspec.structs.replace(part, state=SKIPPED, reason=words)
        case Silent(words=words):
            return msgspec.structs.replace(part, state=RUNNING, reason=words)
        case WeightsState(state=state, words=words) if state == FAILED:
            return msgspec.structs.replace(part, state=STEP_FAILED, reason=words or "it failed")
        case WeightsState(state=state, size_bytes=size) if state == HELD:
            progress = JobProgress(words=HELD, done=size, total=size)
            return msgspec.structs.replace(part, state=DONE, progress=progress, reason=None)
        case WeightsState(state=state) if state == ABSENT:
            progress = JobProgress(words=_CAN_BE_FETCHED)
            return msgspec.structs.replace(part, state=DONE, progress=progress, reason=None)
        case WeightsState(progress=told):
            so_far = _told(told) or part.progress
            return msgspec.structs.replace(part, state=RUNNING, progress=so_far, reason=None)


def _told(progress: Progress | None) -> JobProgress | None:
    if progress is None:
        return None
    return JobProgress(words=progress.words, done=progress.done_bytes, total=progress.total_bytes)


def _progress(parts: Sequence[JobPart]) -> JobProgress:
    """Return how far all nodes are together; bytes only where each that is at it says them."""
    over = sum(1 for part in parts if part.state in _FINAL)
    busy = [part for part in parts if part.state not in _FINAL]
    told = [part.progress for part in parts if part.progress is not None]
    words = [f"{part.name}: {part.progress.words}" for part in busy if part.progress is not None]
    if not busy:
        words = [f"{part.name}: {part.progress.words}" for part in parts if part.progress]
    if len(parts) > 1:
        words.insert(0, f"{over} of {counted(len(parts), 'node')}")
    done = [one.done for one in told if one.done is not None]
    total = [one.total for one in told if one.total is not None]
    all_say = len(total) == len(parts)
    return JobProgress(
        words=some(words, "; "),
        done=sum(done) if done else None,
        total=sum(total) if all_say else None,
    )
