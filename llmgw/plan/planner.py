"""The planner (PLC-10): what serving a model would take, before anything is changed.

It asks the same `reconcile` that will decide, on a fleet that it carries each plan out on: first
until the fleet rests as it is told now, then with the model added. What differs is the model's
doing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from llmgw.base.units import show_bytes, show_seconds
from llmgw.model.catalog import CatalogEntry, Model, PathSource, Profile
from llmgw.model.catalog_check import check_model
from llmgw.model.node import Host
from llmgw.model.replica import OVER, Replica
from llmgw.model.shape import ModelShape
from llmgw.plan.atrest import at_rest
from llmgw.plan.estimate import (
    REPLY_TOKENS,
    MemoryNeed,
    is_slow,
    memory_need,
    tokens_per_second,
)
from llmgw.plan.imagine import gone_through
from llmgw.plan.modelplan import (
    FirstRequest,
    GivenUp,
    ModelPlan,
    PlannedReplica,
    PlannedShard,
    ProfilePlan,
)
from llmgw.plan.ondemand import told
from llmgw.plan.records import (
    Assignment,
    Demand,
    Desired,
    NodeRoom,
    Observed,
    Plan,
    Refusal,
    StartReplica,
    Step,
    Want,
)
from llmgw.plan.scaling import (
    at_request,
    begins_with,
    may_run,
    most,
    on_demand,
    running,
    scales,
)
from llmgw.plan.weights_known import WeightsKnown
from llmgw.plan.words import counted, device_name, some

_NOTHING = "changes nothing that runs"
_ONCE_STARTED = "the cluster is stopped, and once `llmgw start` lets it serve"
_NO_WEIGHTS = MemoryNeed(unknown=("it has no weights",))


def plan_model(model: Model, desired: Desired, observed: Observed, now: float) -> ModelPlan:
    """Return what serving a model would take.

    Args:
        model: as it would be put into the catalog; one of that name that is there is replaced.
        desired: what the cluster is told now.
        observed: the fleet at this moment.
        now: monotonic seconds, on the clock of the failures in `observed`.
    """
    if problems := check_model(model):
        return ModelPlan(model=model.name, problems=problems, words="it is not sound as written")
    if desired.settings.serving.stopped:
        answer = plan_model(model, _serving(desired, model.name), observed, now)
        return msgspec.structs.replace(answer, words=f"{_ONCE_STARTED}: {answer.words}")
    rested, _ = at_rest(desired, gone_through(observed), now)
    wanted = _with(desired, model, rested)
    served, plans = at_rest(wanted, rested, now)
    answer = _answer(model, observed, rested, served, plans)
    return _asked(answer, model, wanted, served, now)


def _serving(desired: Desired, but: str) -> Desired:
    """Return what the cluster is told, but that it serves everything else again."""
    serving = msgspec.structs.replace(desired.settings.serving, stopped=False)
    settings = msgspec.structs.replace(desired.settings, serving=serving)
    others = tuple(one for one in desired.models if one.model.name != but)
    return msgspec.structs.replace(desired, settings=settings, models=others)


def _with(desired: Desired, model: Model, rested: Observed) -> Desired:
    others = tuple(one for one in desired.models if one.model.name != model.name)
    entry = CatalogEntry(model=model, version=0, changed=0.0, changed_by="")
    before = {one.profile: one for one in desired.wants if one.model == model.name}
    mine = (
        _still_wanted(model.name, profile, before.get(profile.name), rested)
        for profile in filter(scales, model.profiles)
    )
    wants = (*(one for one in desired.wants if one.model != model.name), *mine)
    return msgspec.structs.replace(desired, models=(*others, entry), wants=wants)


def _still_wanted(model: str, profile: Profile, want: Want | None, rested: Observed) -> Want:
    """Return what scaling wants of a profile at first, within its new bounds."""
    if want is None:
        there = sum(one.profile == profile.name for one in running(rested, model))
        wanted = begins_with(profile, there, new=True)
        return Want(model=model, profile=profile.name, replicas=wanted, words="")
    least = 0 if on_demand(profile) and not want.replicas else profile.replicas
    wanted = min(max(want.replicas, least), most(profile))
    return msgspec.structs.replace(want, replicas=wanted)


def _asked(
    answer: ModelPlan, model: Model, desired: Desired, served: Observed, now: float
) -> ModelPlan:
    """Add what the first request starts, where no replica is wanted before one comes.

    The profiles are tried in their order, as they are then.
    """
    by_profile = {one.profile: one.replicas for one in desired.wants if one.model == model.name}
    if any(by_profile.get(one.name, one.replicas) for one in model.profiles):
        return answer
    starts = [profile for profile in may_run(model) if on_demand(profile)]
    if not starts:
        nobody = "no replica of it is wanted, and no request starts one"
        words = nobody if answer.words == _NOTHING else f"{answer.words}; no request starts one"
        return msgspec.structs.replace(answer, words=words)
    refusals: list[Refusal] = []
    request = FirstRequest()
    for profile in starts:
        part = _at_request(model, profile, desired, served, now)
        found = [one.refusal for one in part.profiles if one.refusal is not None]
        refusals += found
        request = FirstRequest(
            starts=part.starts,
            gives_up=part.gives_up,
            refusals=tuple(refusals),
            download_bytes=part.download_bytes,
        )
        if not found:
            break
    fits = len(refusals) < len(starts)
    words = _at_request_words(request, fits=fits)
    if answer.words != _NOTHING:
        words = f"{answer.words}; {words}"
    return msgspec.structs.replace(
        answer, first_request=request, fits=answer.fits and fits, words=words
    )


def _at_request(
    model: Model, profile: Profile, desired: Desired, served: Observed, now: float
) -> ModelPlan:
    """Return what a request takes that starts a profile."""
    want = Want(
        model=model.name,
        profile=profile.name,
        replicas=at_request(profile),
        words="a request waits for it",
    )
    key = (model.name, profile.name)
    wants = (*(one for one in desired.wants if (one.model, one.profile) != key), want)
    demands = (one for one in served.demands if one.model != model.name)
    asked = msgspec.structs.replace(
        served, demands=(*demands, Demand(model=model.name, queued=1, idle_for=0.0))
    )
    after, plans = at_rest(msgspec.structs.replace(desired, wants=wants), asked, now)
    return _answer(model, asked, served, after, plans)


def _at_request_words(request: FirstRequest, *, fits: bool) -> str:
    words = _words(request.starts, request.gives_up, () if fits else request.refusals)
    if request.starts:
        return f"no replica until the first request comes, which {words}"
    return f"no replica until a request comes, and then: {words}"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the answers about one model are made from."""

    model: Model
    shape: ModelShape | None
    size: int | None
    holding: tuple[str, ...]
    rooms: Mapping[str, NodeRoom]
    before: Mapping[str, Replica]
    """Of the fleet at rest, as it is told now."""
    after: Mapping[str, Replica]
    """Once the model is served."""


def _answer(
    model: Model, observed: Observed, rested: Observed, served: Observed, plans: Sequence[Plan]
) -> ModelPlan:
    held = WeightsKnown(observed.nodes).of(model)
    known = _Known(
        model=model,
        shape=held.shape,
        size=held.size_bytes,
        holding=held.nodes,
        rooms={room.node.id: room for room in observed.nodes},
        before={one.id: one for one in rested.replicas},
        after={one.id: one for one in served.replicas},
    )
    steps = [step for plan in plans for step in plan.steps]
    starts = tuple(
        _planned(step, known)
        for step in steps
        if isinstance(step, StartReplica)
        and step.model == model.name
        and step.replica in known.after
    )
    gives_up = _given_up(steps, known, {one.id for one in observed.replicas})
    refusals = {one.profile: one for one in plans[-1].refusals if one.model == model.name}
    return ModelPlan(
        model=model.name,
        profiles=tuple(
            _profile(one, known, starts, refusals.get(one.name)) for one in model.profiles
        ),
        starts=starts,
        gives_up=gives_up,
        weights_bytes=held.size_bytes or (held.shape.weights_bytes if held.shape else None),
        weights_on=known.holding,
        download_bytes=_downloads(starts),
        fits=not refusals,
        words=_words(starts, gives_up, tuple(refusals.values())),
    )


def _given_up(
    steps: Sequence[Step], known: _Known, running: Collection[str]
) -> tuple[GivenUp, ...]:
    """Return what goes of what was there, each by the first step that says so.

    What is only about to be started, and would not be, is nothing that goes.
    """
    first: dict[str, Step] = {}
    for step in steps:
        gone = step.replica in known.before and step.replica not in known.after
        if gone and step.replica in running:
            first.setdefault(step.replica, step)
    return tuple(
        GivenUp(
            replica=name,
            model=known.before[name].model,
            kind=str(step.__struct_config__.tag),
            words=step.words,
        )
        for name, step in first.items()
    )


def _planned(step: StartReplica, known: _Known) -> PlannedReplica:
    return PlannedReplica(
        profile=step.profile,
        shards=tuple(_shard(one, known) for one in step.shards),
        words=step.words,
    )


def _shard(one: Assignment, known: _Known) -> PlannedShard:
    node = known.rooms[one.node].node
    names = {device.uuid: device_name(device) for device in node.inventory.devices or ()}
    here = one.node in known.holding or isinstance(one.spec.source, PathSource | None)
    return PlannedShard(
        node=one.node,
        devices=tuple(names.get(uuid, uuid) for uuid in one.spec.devices),
        download_bytes=0 if here else known.size,
        tokens_per_second=None
        if one.spec.devices
        else _rate(node.inventory.host, known, one.spec.cpu_cores),
    )


def _rate(host: Host | None, known: _Known, cores: int | None) -> float | None:
    if host is None:
        return None
    whole, core = host.mem_bandwidth_gbs, host.mem_bandwidth_core_gbs
    return tokens_per_second(
        known.shape,
        known.size,
        None if whole is None else whole * 1e9,
        None if core is None else core * 1e9,
        cores,
    )


def _profile(
    profile: Profile, known: _Known, starts: Sequence[PlannedReplica], refusal: Refusal | None
) -> ProfilePlan:
    name = known.model.name
    there = sum(
        1
        for one in known.before.values()
        if (one.model, one.profile) == (name, profile.name)
        and one.id in known.after
        and one.state not in OVER
    )
    mine = [one for one in starts if one.profile == profile.name]
    return ProfilePlan(
        profile=profile.name,
        wanted=profile.replicas,
        there=there,
        need=_NO_WEIGHTS
        if known.model.source is None
        else memory_need(known.shape, profile, known.size),
        refusal=refusal,
        warnings=tuple(_warnings(profile, known, mine)),
        rests=told(profile),
    )


def _warnings(profile: Profile, known: _Known, starts: Sequence[PlannedReplica]) -> Iterator[str]:
    rates = [r for one in starts for s in one.shards if (r := s.tokens_per_second) is not None]
    if rates and is_slow(min(rates)):
        seconds = show_seconds(REPLY_TOKENS / min(rates))
        yield (
            f"about {min(rates):.1f} tokens/s on the CPU: a reply of {REPLY_TOKENS} tokens takes "
            f"{seconds}"
        )
    trained = known.shape.context if known.shape is not None else None
    if trained is not None and profile.context is not None and profile.context > trained:
        context = counted(profile.context, "token")
        yield f"a context of {context}, and it was trained for {trained}"
    need = memory_need(known.shape, profile, known.size)
    reserved = profile.min_memory_gb
    if not profile.gpus and need.total_bytes and reserved and need.total_bytes > reserved * 1e9:
        yield (
            f"needs about {show_bytes(need.total_bytes)} of memory, and min_memory_gb "
            f"reserves {reserved:g} GB"
        )


def _downloads(starts: Sequence[PlannedReplica]) -> int | None:
    """Return what all nodes fetch together: each fetches a model once (WGT-2)."""
    by_node = {shard.node: shard.download_bytes for one in starts for shard in one.shards}
    known = [size for size in by_node.values() if size is not None]
    return sum(known) if len(known) == len(by_node) else None


def _words(
    starts: Sequence[PlannedReplica], gives_up: Sequence[GivenUp], refusals: Sequence[Refusal]
) -> str:
    where = [" and ".join(_seat(shard) for shard in one.shards) for one in starts]
    parts = [f"starts {counted(len(where), 'replica')}: {some(where)}"] if where else []
    if gives_up:
        gone = [f"{one.replica} ({one.words})" for one in gives_up]
        parts.append(f"gives up {some(gone, '; ')}")
    parts += [f"can't place {one.profile}: {one.words}" for one in refusals]
    return "; ".join(parts) or _NOTHING


def _seat(shard: PlannedShard) -> str:
    return f"{shard.node} [{' '.join(shard.devices) or 'CPU'}]"
