"""How many replicas of a profile are wanted now: by its load, to zero and back (REC-6).

Pure: what has to be remembered between two moments goes in and comes out as a value. A new leader
begins with what runs, and with none where nothing does: a model that was stopped while idle is not
started because the leader changed.

A profile that may be without replicas keeps its last one until nothing was asked of the model for
`idle_stop`; one of `replicas: 0` that does not say it, for `down_window`. What was started is let
begin to serve, and the time counts from then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.base.units import show_seconds
from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.replica import LEAVING, OVER, Replica
from llmgw.model.shard import FETCHING, READY, STARTING
from llmgw.plan.backoff import RULE as FAILURES
from llmgw.plan.need import TRIED, Full, Use, need, rule_of, still, too_much
from llmgw.plan.placement.kinds import passes
from llmgw.plan.records import Demand, Desired, Load, Observed, Refusal, Want
from llmgw.plan.spell import Spell, seen
from llmgw.plan.successors import counted_once
from llmgw.plan.words import some

WINDOW = 30.0
"""Seconds for which more must be wanted before a replica is added, unless the profile says."""
DOWN_WINDOW = 300.0
"""Seconds for which less must be wanted before one is taken away."""

Key = tuple[str, str]
"""Model and profile."""

_NOT_ASKED = "nothing is asked of it"
_ASKED = "a request waits for it"


@dataclass(frozen=True, slots=True)
class Scale:
    """What is remembered of one profile. Times: monotonic seconds."""

    wanted: int
    words: str
    """Why, with nothing that moves by itself; empty: because the catalog says so."""
    busy: float
    """When it had something to do last, as far as seen; at first when it is looked at first."""
    more: Spell | None = None
    """For how long more is wanted."""
    less_since: float | None = None
    most_since: int = 0
    """The most that was needed at once since `less_since`."""
    full: Full | None = None
    """What proved too much."""
    less_at: float | None = None
    """When one was taken away last because of the load."""
    less_with: int = 0
    """How many requests were there then."""
    asked: float | None = None
    """Since when a request waits for the model, or waited first for what it started."""
    served: bool = False
    """A replica has begun to serve since some are wanted."""
    refused: str = ""
    """Why it can't be placed, where a request waits and another profile is tried instead."""


def scales(profile: Profile) -> bool:
    """Say whether the number of a profile's replicas follows what is asked of it."""
    return profile.scaling is not None or on_demand(profile)


def on_demand(profile: Profile) -> bool:
    """Say whether a profile has no replicas at times, and a request starts one."""
    stops = profile.scaling is not None and profile.scaling.idle_stop is not None
    return most(profile) > 0 and (stops or profile.replicas == 0)


def most(profile: Profile) -> int:
    """Return how many replicas a profile may have."""
    return max(profile.replicas, profile.max_replicas or 0)


def at_request(profile: Profile) -> int:
    """Return how many replicas of a profile a request starts."""
    return max(1, profile.replicas) if on_demand(profile) else 0


def rests_after(profile: Profile) -> float | None:
    """Return for how many seconds nothing may be asked of a profile that then has no replica.

    None: it always has one.
    """
    if not on_demand(profile):
        return None
    rule = rule_of(profile)
    return down_window(profile) if rule.idle_stop is None else rule.idle_stop


def down_window(profile: Profile) -> float:
    """Return the seconds for which less must be wanted of a profile before it has less."""
    rule = rule_of(profile)
    return DOWN_WINDOW if rule.down_window is None else rule.down_window


def begins_with(profile: Profile, there: int, *, new: bool) -> int:
    """Return how many replicas are wanted of a profile when it is looked at first.

    Args:
        profile: one that scales.
        there: how many run.
        new: its model was written a moment ago.
    """
    least = 0 if on_demand(profile) and not new else profile.replicas
    return min(most(profile), max(least, there))


def may_run(model: Model) -> tuple[Profile, ...]:
    """Return the profiles of a model that may have replicas, those first that are tried first."""
    return tuple(profile for profile in model.profiles if most(profile) > 0)


def waiting_helps(refusal: Refusal) -> bool:
    """Say whether a place may become free by itself; what has failed there is not waited for."""
    return any(passes(one.verdict) and one.verdict.rule != FAILURES for one in refusal.candidates)


def scale(
    before: Mapping[Key, Scale],
    desired: Desired,
    observed: Observed,
    now: float,
    at: float,
    refused: Mapping[Key, Refusal] | None = None,
) -> dict[Key, Scale]:
    """Return how many replicas are wanted of each profile that scales.

    Args:
        before: what this returned at the moment before; empty for a leader that begins.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds.
        at: the same moment in seconds since the epoch, as the catalog's entries have it.
        refused: profiles that a request was to start at this moment, and that can't be placed.
    """
    demands = {demand.model: demand for demand in observed.demands}
    moment = _Moment(
        before=before,
        refused=refused or {},
        loads={load.replica: load for load in observed.loads},
        observed=observed,
        now=now,
        at=at,
    )
    found: dict[Key, Scale] = {}
    for entry in desired.models:
        name = entry.model.name
        demand = demands.get(name, Demand(model=name))
        found |= _of_model(entry, running(observed, name), demand, moment)
    return found


def wants(found: Mapping[Key, Scale]) -> tuple[Want, ...]:
    """Return what scaling wants, as the plan is told it."""
    return tuple(
        Want(
            model=model,
            profile=profile,
            replicas=one.wanted,
            words=one.words,
            refused=one.refused,
        )
        for (model, profile), one in sorted(found.items())
    )


def running(observed: Observed, model: str) -> tuple[Replica, ...]:
    """Return the replicas of a model that run or are about to, and are not given up."""
    over = LEAVING | OVER
    return tuple(one for one in observed.replicas if one.model == model and one.state not in over)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What all profiles are looked at with."""

    before: Mapping[Key, Scale]
    refused: Mapping[Key, Refusal]
    loads: Mapping[str, Load]
    observed: Observed
    now: float
    at: float


@dataclass(frozen=True, slots=True)
class _Wish:
    """That a model is wanted since a request came, and nothing of it runs. Monotonic seconds."""

    asked: float
    busy: float
    started: bool
    """A profile is wanted for it already."""


def _of_model(
    entry: CatalogEntry, there: Sequence[Replica], demand: Demand, moment: _Moment
) -> dict[Key, Scale]:
    model, found = entry.model, {}
    wish = _wish(model, demand, moment) if not there else None
    taker = _taker(model, there, moment.refused)
    for profile in filter(scales, model.profiles):
        key, takes = (model.name, profile.name), profile is taker
        own = [one for one in there if one.profile == profile.name]
        use = _use(own, moment.loads, demand, demand.queued if takes else 0, len(there))
        known = moment.before.get(key) or _first(entry, profile, own, moment)
        waits = known.wanted > 0 or wish is not None
        known = replace(known, refused="", asked=known.asked if waits else None)
        if wish is not None and on_demand(profile):
            known = _wished(known, profile, wish, moment.refused.get(key), takes=takes)
        found[key] = _next(known, profile, use, moment.now)
        if takes and found[key].words == _ASKED:
            found[key] = replace(found[key], words=_instead(model, profile, moment.refused))
    return found


def _instead(model: Model, taker: Profile, refused: Mapping[Key, Refusal]) -> str:
    """Return why a profile is started for what waits, and not one that comes before it."""
    before = [one.name for one in may_run(model) if (model.name, one.name) in refused]
    if not before or taker.name in before:
        return _ASKED
    return f"{_ASKED}; {some(before)} can't be placed"


def _wish(model: Model, demand: Demand, moment: _Moment) -> _Wish | None:
    """Return whether a request waits for a model, or one that came before did and was refused."""
    before = [moment.before.get((model.name, one.name)) for one in model.profiles]
    asked = [one for one in before if one is not None and one.asked is not None]
    started = [one for one in asked if one.wanted]
    if not demand.queued and not started:
        return None
    now = moment.now
    return _Wish(
        asked=min((one.asked for one in asked if one.asked is not None), default=now),
        busy=now if demand.queued else max(one.busy for one in started),
        started=bool(started),
    )


def _taker(
    model: Model, there: Sequence[Replica], refused: Mapping[Key, Refusal]
) -> Profile | None:
    """Return the profile that serves what waits for a model, or is to be started for it.

    The first that runs; where none does, the first that was not refused. Where all were, one for
    which waiting helps, else the first.
    """
    may = may_run(model)
    profiles = {one.profile for one in there}
    for profile in may:
        if profile.name in profiles:
            return profile
    turned = {one.name: refused.get((model.name, one.name)) for one in may}
    for profile in may:
        if turned[profile.name] is None:
            return profile
    starts = [one for one in may if on_demand(one)] or may
    for profile in starts:
        refusal = turned[profile.name]
        if refusal is not None and waiting_helps(refusal):
            return profile
    return starts[0] if starts else None


def _wished(
    known: Scale, profile: Profile, wish: _Wish, refusal: Refusal | None, *, takes: bool
) -> Scale:
    """Return what is known of a profile that is to be started for what waits, or another is."""
    if takes:
        known = replace(known, busy=max(known.busy, wish.busy))
        return known if known.wanted or not wish.started else _woken(known, profile, wish.asked)
    if known.wanted and known.asked is None:
        return known  # the catalog wants it
    words = _NOT_ASKED if known.wanted else known.words
    refused = refusal.words if refusal is not None else ""
    return replace(_rested(known, words), asked=wish.asked, refused=refused)


def _use(
    own: Sequence[Replica], loads: Mapping[str, Load], demand: Demand, queued: int, of_model: int
) -> Use:
    known = [loads.get(one.id, Load(replica=one.id)) for one in own]
    flights = [load.in_flight for load in known]
    tokens = demand.tokens_per_second
    return Use(
        ready=sum(one.state == READY for one in own),
        starting=sum(one.state in {FETCHING, STARTING} for one in own),
        in_flight=None if None in flights else sum(one or 0 for one in flights),
        engines=sum((load.running or 0) + (load.waiting or 0) for load in known),
        waiting=sum(load.waiting or 0 for load in known),
        queued=queued,
        tokens=None if tokens is None else tokens * len(own) / max(1, of_model),
        idle_for=demand.idle_for,
    )


def _first(entry: CatalogEntry, profile: Profile, own: Sequence[Replica], moment: _Moment) -> Scale:
    new = moment.at - entry.changed < (rule_of(profile).idle_stop or 0.0)
    return begins_as(entry, profile, own, moment.observed, moment.now, new=new)


def begins_as(
    entry: CatalogEntry,
    profile: Profile,
    own: Sequence[Replica],
    observed: Observed,
    now: float,
    *,
    new: bool,
) -> Scale:
    """Return where scaling begins: with what runs, or with what a newly written entry says."""
    wanted = begins_with(profile, counted_once(own, entry.model, profile, observed), new=new)
    words = "" if wanted == profile.replicas else "as many as run"
    if not wanted:
        words = _NOT_ASKED
    return Scale(wanted=wanted, words=words, busy=now)


def _next(known: Scale, profile: Profile, use: Use, now: float) -> Scale:
    known = _seen(replace(known, wanted=min(most(profile), known.wanted)), use, now)
    if known.wanted < max(1, profile.replicas):
        return _from_below(known, profile, use, now)
    after = rests_after(profile)
    awaited = use.starting > 0 and not known.served
    if after is not None and use.nothing and not awaited and _idle(known, use, now) >= after:
        return _rested(known, f"nothing was asked of it for {show_seconds(after)}")
    least = max(profile.replicas, at_request(profile))
    known = replace(known, full=still(known.full, now))
    needed, why = need(profile, use, known.wanted, known.full)
    needed = min(most(profile), max(least, needed))
    if needed > known.wanted:
        return _up(known, needed, why, profile, use, now)
    if needed < known.wanted and use.in_flight is not None:
        return _down(known, needed, why, profile, use, now)
    return replace(_no_less(known), more=seen(known.more, now, so=False))


def _seen(known: Scale, use: Use, now: float) -> Scale:
    """Note what it does now; that it begins to serve counts as something to do."""
    begins = use.ready > 0 and not known.served
    known = replace(known, served=known.served or begins)
    return known if use.nothing and not begins else replace(known, busy=now)


def _idle(known: Scale, use: Use, now: float) -> float:
    """Return the seconds for which nothing was asked, and it could have been."""
    seen = now - known.busy
    return seen if use.idle_for is None else min(seen, use.idle_for)


def _from_below(known: Scale, profile: Profile, use: Use, now: float) -> Scale:
    """Return what is wanted of a profile that was stopped, or of which the catalog wants more."""
    known = replace(_no_less(known), more=None)
    if known.wanted == 0 and on_demand(profile):
        return known if use.nothing else _woken(known, profile, now)
    if most(profile) == 0:
        return known
    return replace(known, wanted=max(1, profile.replicas), words="")


def _woken(known: Scale, profile: Profile, asked: float) -> Scale:
    asked = known.asked or asked
    return replace(known, wanted=at_request(profile), words=_ASKED, asked=asked, served=False)


def _rested(known: Scale, words: str) -> Scale:
    return Scale(wanted=0, words=words, busy=known.busy)


def _up(known: Scale, needed: int, why: str, profile: Profile, use: Use, now: float) -> Scale:
    more, rule = seen(known.more, now, so=True), rule_of(profile)
    if more is None or more.lasts < (WINDOW if rule.window is None else rule.window):
        return replace(_no_less(known), more=more)
    tried = known.less_at is not None and now - more.lasts - known.less_at <= TRIED
    full = too_much(known.full, profile, use, now, tried=known.less_with if tried else None)
    return replace(_no_less(known), wanted=needed, words=why, full=full, more=None)


def _down(known: Scale, needed: int, why: str, profile: Profile, use: Use, now: float) -> Scale:
    known = replace(known, more=seen(known.more, now, so=False))
    since = now if known.less_since is None else known.less_since
    highest = max(needed, known.most_since if known.less_since is not None else 0)
    if now - since < down_window(profile):
        return replace(known, less_since=since, most_since=highest)
    known = replace(_no_less(known), more=None, less_at=now, less_with=use.work)
    return replace(known, wanted=highest, words=why)


def _no_less(known: Scale) -> Scale:
    return replace(known, less_since=None, most_since=0)
