"""The steps `plan`, `catalog`, `place` and `ready`."""

from collections.abc import Iterator
from shlex import quote

import msgspec

from llmgw.model.check import fingerprint
from llmgw.model.jobs import (
    DONE,
    FAILED,
    RUNNING,
    SKIPPED,
    WAITING,
    Job,
    JobPart,
    JobProgress,
    JobStep,
)
from llmgw.model.replica import LEAVING, Replica
from llmgw.model.shard import FAILED as SHARD_FAILED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.model.shard import STOPPED
from llmgw.plan.backoff import ELSEWHERE_AFTER
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.records import NOT_NOW, Refusal, StartFailure
from llmgw.plan.serving.records import Forgive, MakePlan, PutModel, Seen, Turn
from llmgw.plan.words import counted, some

_NOT_THERE = frozenset({SHARD_FAILED, STOPPED, *LEAVING})


def plan(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Plan the model, wait while waiting helps, and keep which nodes it takes."""
    if not seen.settled:
        nodes = some(seen.waiting_for)
        words = f"waits until {nodes} said what they run" if nodes else "the fleet settles"
        return Turn(msgspec.structs.replace(step, state=RUNNING, reason=words))
    if seen.plan is None:
        order = MakePlan(model=job.spec.model)
        return Turn(msgspec.structs.replace(step, state=RUNNING), (order,))
    answer = seen.plan
    if answer.problems:
        problems = "; ".join(f"{one.path}: {one.words}" for one in answer.problems)
        return Turn(failed(step, f"{answer.words}: {problems}"))
    refusals = [one.refusal for one in answer.profiles if one.refusal is not None]
    if refusals:
        words = "; ".join(f"can't place {one.profile}: {one.words}" for one in refusals)
        if not all(map(_waiting_helps, refusals)):
            return Turn(failed(step, words))
        return Turn(msgspec.structs.replace(step, state=RUNNING, reason=words))
    parts = tuple(JobPart(name=node, state=DONE) for node in _nodes(answer))
    progress = JobProgress(words="; ".join((answer.words, *_warnings(answer))))
    return Turn(
        msgspec.structs.replace(step, state=DONE, progress=progress, reason=None, parts=parts)
    )


def catalog(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Put the model into the catalog, if it is as it was when the job began."""
    spec, entry = job.spec, seen.entry
    if entry is not None and entry.model == spec.model:
        version = f"version {entry.version}"
        if step.state == WAITING:
            words = f"the catalog has it as {version} already"
            return Turn(msgspec.structs.replace(step, state=SKIPPED, reason=words))
        progress = JobProgress(words=f"is {version}")
        return Turn(msgspec.structs.replace(step, state=DONE, progress=progress, reason=None))
    if seen.not_put is not None:
        return Turn(failed(step, seen.not_put))
    if (entry.version if entry is not None else 0) != spec.version:
        return Turn(failed(step, _changed(job, seen)))
    order = PutModel(model=spec.model, expected=spec.version)
    return Turn(msgspec.structs.replace(step, state=RUNNING), (order,))


def place(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Wait until all replicas that are wanted are somewhere."""
    there = {one.id for one in _replicas(job, seen)}
    return _counted(job, step, seen, there)


def ready(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Wait until they serve."""
    serving = {one.id for one in _replicas(job, seen) if one.state == SHARD_READY}
    return _counted(job, step, seen, serving)


def failed(step: JobStep, words: str) -> JobStep:
    """Return a step that failed."""
    return msgspec.structs.replace(step, state=FAILED, reason=words)


def stays(model: str) -> str:
    """Say that a model is not taken out of the catalog, and how it is."""
    return f"{model} stays in the catalog; `llmgw ctl model rm {quote(model)}` removes it"


def _counted(job: Job, step: JobStep, seen: Seen, which: set[str]) -> Turn:
    model = job.spec.model
    total = sum(profile.replicas for profile in model.profiles)
    replicas = _replicas(job, seen)
    done = 0
    for profile in model.profiles:
        here = sum(1 for one in replicas if one.id in which and one.profile == profile.name)
        done += min(here, profile.replicas)
    words = f"{done} of {counted(total, 'replica')}"
    progress = JobProgress(words=words, done=done, total=total)
    begins = step.state == WAITING
    step = msgspec.structs.replace(step, state=RUNNING, progress=progress, reason=None)
    if seen.entry is None or seen.entry.model != model:
        return Turn(failed(step, _changed(job, seen)))
    if done == total:
        return Turn(msgspec.structs.replace(step, state=DONE))
    given_up = [
        one for one in seen.failures if one.model == model.name and one.count >= ELSEWHERE_AFTER
    ]
    if given_up and begins:
        # They failed before anybody asked for this: it is tried now, and counted from now on.
        return Turn(step, (Forgive(model=model.name),))
    if given_up:
        return Turn(failed(step, f"{_words(given_up[0])}; {stays(model.name)}"))
    waits = some(list(_waits(job, seen, which)), "; ")
    return Turn(msgspec.structs.replace(step, reason=waits or None))


def _replicas(job: Job, seen: Seen) -> tuple[Replica, ...]:
    """Return the replicas that were started with what the job serves and are not on their way out.

    In the order of their ids.
    """
    model = job.spec.model
    prints = {profile.name: fingerprint(model, profile) for profile in model.profiles}
    return tuple(
        one
        for one in seen.replicas
        if one.model == model.name
        and one.profile is not None
        and one.fingerprint is not None
        and prints.get(one.profile) == one.fingerprint
        and one.state not in _NOT_THERE
    )


def _waits(job: Job, seen: Seen, which: set[str]) -> Iterator[str]:
    if seen.stopped:
        yield "the cluster is stopped; `llmgw start` lets it serve"
        return
    for refusal in seen.refusals:
        if refusal.model == job.spec.model.name:
            yield f"can't place {refusal.profile}: {refusal.words}"
    for one in _replicas(job, seen):
        if one.id not in which:
            yield f"{one.id} is {one.state or 'not heard of yet'}"


def _words(failure: StartFailure) -> str:
    return f"{failure.node}: failed to start it {failure.count} times: {failure.words}"


def _changed(job: Job, seen: Seen) -> str:
    name, entry = job.spec.model.name, seen.entry
    if entry is None:
        return f"{name} was taken out of the catalog since the job began"
    return (
        f"{name} is at version {entry.version} of {entry.changed_by} now, which is not what this "
        f"job serves; look at it, then serve it anew: llmgw ctl model show {quote(name)}"
    )


def _waiting_helps(refusal: Refusal) -> bool:
    return any(one.verdict.kind == NOT_NOW for one in refusal.candidates)


def _nodes(answer: ModelPlan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shard.node for one in answer.starts for shard in one.shards))


def _warnings(answer: ModelPlan) -> Iterator[str]:
    for profile in answer.profiles:
        yield from profile.warnings
