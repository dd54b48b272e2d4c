"""The steps `plan`, `catalog`, `place` and `ready`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

import msgspec

from llmgw.model.check import fingerprint
from llmgw.model.jobs import (
    DONE,
    FAILED,
    QUEUED,
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
from llmgw.plan.backoff import ELSEWHERE_AFTER, happened
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.placement.place import summary
from llmgw.plan.records import NOT_NOW, Refusal, StartFailure
from llmgw.plan.serving import meanwhile
from llmgw.plan.serving.records import PLACE, Forgive, JudgeNodes, MakePlan, PutModel, Seen, Turn
from llmgw.plan.serving.resting import awaited, none_awaited
from llmgw.plan.serving.untried import given_up, may_still_take
from llmgw.plan.words import counted, some

_NOT_THERE = frozenset({SHARD_FAILED, STOPPED, *LEAVING})
_STOPPED = "the cluster is stopped; `llmgw start` lets it serve"


def plan(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Plan the model, wait while waiting helps, and keep which nodes it takes."""
    if seen.stopped:
        return Turn(msgspec.structs.replace(step, state=RUNNING, reason=f"waits: {_STOPPED}"))
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
    if (turn := changed(job, step, seen)) is not None:
        return turn
    if seen.not_put is not None:
        return Turn(failed(step, seen.not_put))
    order = PutModel(model=spec.model, expected=spec.version)
    return Turn(msgspec.structs.replace(step, state=RUNNING), (order,))


def place(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Wait until all replicas that are wanted are somewhere."""
    there = {one.id for one in _replicas(job, seen)}
    return _counted(job, step, seen, there)


def ready(job: Job, step: JobStep, seen: Seen) -> Turn:
    """Wait until they serve."""
    serving = {one.id for one in _replicas(job, seen) if _serves(one, seen)}
    return _counted(job, step, seen, serving)


def changed(job: Job, step: JobStep, seen: Seen) -> Turn | None:
    """End a job whose model can't be put into the catalog any more; None: it can be."""
    words = meanwhile.in_the_way(job, seen.entry)
    if words is None:
        return None
    return Turn(failed(step, words), hint=meanwhile.what_to_do(job, seen.entry))


def failed(step: JobStep, words: str) -> JobStep:
    """Return a step that failed."""
    return msgspec.structs.replace(step, state=FAILED, reason=words)


def stays(model: str) -> str:
    """Say that a model is not taken out of the catalog, and how it is."""
    return f"{model} stays in the catalog; `llmgw ctl model rm {quote(model)}` removes it"


def _counted(job: Job, step: JobStep, seen: Seen, which: set[str]) -> Turn:
    """Count replicas against what is wanted now, and go on, wait or fail."""
    entry = seen.entry
    words = meanwhile.gone(job) if entry is None else meanwhile.another(job, entry)
    if entry is None or words is not None:
        hint = meanwhile.what_to_do(job, entry)
        return Turn(failed(step, words or ""), hint=hint)
    awaits = awaited(entry.model, seen)
    lacks = _lacking(awaits, _replicas(job, seen), which)
    total = sum(awaits.values())
    done = total - sum(lacks.values())
    far = f"{done} of {counted(total, 'replica')}" if total else none_awaited(entry.model)
    told = [far, meanwhile.note(job, entry)]
    progress = JobProgress(words="; ".join(filter(None, told)), done=done, total=total)
    begins = step.state == WAITING and (step.name == PLACE or job.state == QUEUED)
    step = msgspec.structs.replace(step, state=RUNNING, progress=progress, reason=None)
    if done == total and not (seen.stopped and total):
        return Turn(msgspec.structs.replace(step, state=DONE))
    tired = given_up(job.subject, seen.failures)
    if tired and begins:
        # They failed before anybody asked for this: it is tried now, and counted from now on.
        return Turn(step, (Forgive(model=job.subject),))
    waits = some([*_waits(job, seen, which), *_passed_over(tired)], "; ")
    step = msgspec.structs.replace(step, reason=waits or None)
    lacking = [name for name, count in lacks.items() if count]
    refused = None if seen.stopped else _refused_for_good(job, seen, lacking)
    if refused is not None:
        return Turn(failed(step, refused))
    if not tired or seen.stopped:
        return Turn(step)
    if seen.judged is None:
        return Turn(step, (JudgeNodes(model=job.subject),))
    over = _nothing_left(job, seen, lacking, tired)
    return Turn(step) if over is None else Turn(failed(step, over))


def _lacking(
    awaits: Mapping[str, int], replicas: Sequence[Replica], which: set[str]
) -> dict[str, int]:
    """Return how many of each profile are missing among some replicas."""
    there = Counter(one.profile for one in replicas if one.id in which)
    return {profile: max(0, count - there[profile]) for profile, count in awaits.items()}


def _refused_for_good(job: Job, seen: Seen, lacking: Sequence[str]) -> str | None:
    """Return why a profile will never be placed; None while it may, or anything is under way.

    What starts or leaves may change what the nodes say.
    """
    refusals = [one for one in seen.for_good if one.profile in lacking]
    moves = any(
        one.model == job.subject and one.state not in {SHARD_READY, SHARD_FAILED, STOPPED}
        for one in seen.replicas
    )
    if moves or not refusals:
        return None
    words = (f"can't place {one.profile}: {one.words}" for one in refusals)
    return f"{some(list(words), '; ')}; {stays(job.subject)}"


def _nothing_left(
    job: Job, seen: Seen, lacking: Sequence[str], tired: Sequence[StartFailure]
) -> str | None:
    """Return why a profile will not start wherever it is tried; None while anything is left.

    Left is a node that fits, or will once something is over; and one on which it is being tried,
    unless it failed there too often before.
    """
    worn = {one.node for one in tired}
    for profile in lacking:
        tried = [
            one
            for one in _replicas(job, seen)
            if one.profile == profile
            and not _serves(one, seen)
            and not worn & {shard.node for shard in one.shards}
        ]
        candidates = (seen.judged or {}).get(profile, ())
        if tried or any(map(may_still_take, candidates)):
            continue
        others = [one for one in candidates if one.node not in worn]
        words = some(list(_words(tired)), "; ")
        elsewhere = f"; nowhere else: {summary(others)}" if others else ""
        return f"{words}{elsewhere}; {stays(job.subject)}"
    return None


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


def _serves(one: Replica, seen: Seen) -> bool:
    """Say whether a replica is ready, and each of its nodes is there to be asked."""
    return one.state == SHARD_READY and not _lost(one, seen)


def _lost(one: Replica, seen: Seen) -> frozenset[str]:
    return seen.lost & {shard.node for shard in one.shards}


def _waits(job: Job, seen: Seen, which: set[str]) -> Iterator[str]:
    if seen.stopped:
        yield _STOPPED
        return
    for refusal in seen.refusals:
        if refusal.model == job.spec.model.name:
            yield f"can't place {refusal.profile}: {refusal.words}"
    left = [one for one in _replicas(job, seen) if one.id not in which]
    for one in left:
        if one.state != SHARD_READY:
            yield f"{one.id} is {one.state or 'not heard of yet'}"
    for node in sorted({node for one in left for node in _lost(one, seen)}):
        yield f"{node} is lost"


def _passed_over(tired: Sequence[StartFailure]) -> Iterator[str]:
    if tired:
        nodes = some([one.node for one in tired])
        yield f"tried elsewhere: {nodes} passed over after {ELSEWHERE_AFTER} failed starts"


def _words(tired: Sequence[StartFailure]) -> Iterator[str]:
    """Yield what happened, once where several nodes say the same."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in tired:
        alike.setdefault((happened(one), one.words), []).append(one.node)
    for (what, words), nodes in alike.items():
        yield f"{some(nodes)}: {what}{' each' if len(nodes) > 1 else ''}: {words}"


def _waiting_helps(refusal: Refusal) -> bool:
    return any(one.verdict.kind == NOT_NOW for one in refusal.candidates)


def _nodes(answer: ModelPlan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shard.node for one in answer.starts for shard in one.shards))


def _warnings(answer: ModelPlan) -> Iterator[str]:
    for profile in answer.profiles:
        yield from profile.warnings
