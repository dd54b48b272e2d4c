"""How many replicas of a profile are wanted now: by its load, to zero and back (REC-6).

Pure: what has to be remembered between two moments goes in and comes out as a value. A new leader
begins with what runs, and with none where nothing does: a model that was stopped while idle is not
started because the leader changed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.base.units import show_seconds
from llmgw.model.catalog import CatalogEntry, Profile, Scaling
from llmgw.model.replica import LEAVING, Replica
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.records import Demand, Desired, Load, Observed, Want

WINDOW = 30.0
"""Seconds for which more must be wanted before a replica is added, unless the profile says."""
DOWN_WINDOW = 300.0
"""Seconds for which less must be wanted before one is taken away."""

Key = tuple[str, str]
"""Model and profile."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What is remembered of one profile. Times: monotonic seconds."""

    wanted: int
    words: str
    """Why, with nothing that moves by itself; empty: because the catalog says so."""
    began: float
    """Since when it is looked at."""
    more_since: float | None = None
    less_since: float | None = None
    most_since: int = 0
    """The most that was needed at once since `less_since`."""


@dataclass(frozen=True, slots=True)
class _Use:
    """What a profile's replicas have to do. None: a part of it is not known."""

    replicas: int
    in_flight: int | None
    waiting: int
    queued: int
    tokens: float | None
    idle_for: float | None


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


def scale(
    before: Mapping[Key, Scale], desired: Desired, observed: Observed, now: float, at: float
) -> dict[Key, Scale]:
    """Return how many replicas are wanted of each profile that scales.

    Args:
        before: what this returned at the moment before; empty for a leader that begins.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds.
        at: the same moment in seconds since the epoch, as the catalog's entries have it.
    """
    demands = {demand.model: demand for demand in observed.demands}
    loads = {load.replica: load for load in observed.loads}
    found: dict[Key, Scale] = {}
    for entry in desired.models:
        demand = demands.get(entry.model.name, Demand(model=entry.model.name))
        running = _running(observed.replicas, entry.model.name)
        taker = next((one for one in entry.model.profiles if most(one) > 0), None)
        for profile in filter(scales, entry.model.profiles):
            own = [one for one in running if one.profile == profile.name]
            queued = demand.queued if profile is taker else 0
            use = _use(own, loads, demand, queued, len(running))
            key = (entry.model.name, profile.name)
            known = before.get(key) or _first(entry, profile, len(own), now, at)
            found[key] = _next(known, profile, use, now)
    return found


def wants(found: Mapping[Key, Scale]) -> tuple[Want, ...]:
    """Return what scaling wants, as the plan is told it."""
    return tuple(
        Want(model=model, profile=profile, replicas=one.wanted, words=one.words)
        for (model, profile), one in sorted(found.items())
    )


def _running(replicas: Iterable[Replica], model: str) -> list[Replica]:
    over = LEAVING | {FAILED, STOPPED}
    return [one for one in replicas if one.model == model and one.state not in over]


def _use(
    own: Sequence[Replica], loads: Mapping[str, Load], demand: Demand, queued: int, of_model: int
) -> _Use:
    known = [loads.get(one.id, Load(replica=one.id)) for one in own]
    flights = [load.in_flight for load in known]
    tokens = demand.tokens_per_second
    return _Use(
        replicas=len(own),
        in_flight=None if None in flights else sum(one or 0 for one in flights),
        waiting=sum(load.waiting or 0 for load in known),
        queued=queued,
        tokens=None if tokens is None else tokens * len(own) / max(1, of_model),
        idle_for=demand.idle_for,
    )


def _first(entry: CatalogEntry, profile: Profile, there: int, now: float, at: float) -> Scale:
    """Return where scaling begins: with what runs, or with what a newly written entry says."""
    new = at - entry.changed < (_rule(profile).idle_stop or 0.0)
    least = 0 if on_demand(profile) and not new else profile.replicas
    wanted = min(most(profile), max(least, there))
    words = "" if wanted == profile.replicas else "as many as run"
    if not wanted:
        words = "nothing is asked of it"
    return Scale(wanted=wanted, words=words, began=now)


def _next(known: Scale, profile: Profile, use: _Use, now: float) -> Scale:
    rule = _rule(profile)
    wanted = min(most(profile), known.wanted)
    if wanted < max(1, profile.replicas):
        return _from_below(replace(known, wanted=wanted), profile, use)
    idle = use.idle_for if use.idle_for is not None else now - known.began
    nothing = use.in_flight == 0 and not use.queued
    if rule.idle_stop is not None and nothing and idle >= rule.idle_stop:
        words = f"nothing was asked of it for {show_seconds(rule.idle_stop)}"
        return Scale(wanted=0, words=words, began=known.began)
    need, why = _need(rule, use, wanted)
    need = min(most(profile), max(profile.replicas, need))
    if need > wanted:
        return _up(known, need, why, rule, now)
    if need < wanted and use.in_flight is not None:
        return _down(known, need, why, rule, now)
    return replace(known, wanted=wanted, more_since=None, less_since=None, most_since=0)


def _from_below(known: Scale, profile: Profile, use: _Use) -> Scale:
    """Return what is wanted of a profile that was stopped, or of which the catalog wants more."""
    rests = known.wanted == 0 and on_demand(profile)
    if most(profile) == 0 or (rests and not use.queued and not use.in_flight):
        return replace(known, more_since=None, less_since=None, most_since=0)
    words = "a request waits for it" if rests else ""
    return Scale(wanted=max(1, profile.replicas), words=words, began=known.began)


def _need(rule: Scaling, use: _Use, wanted: int) -> tuple[int, str]:
    """Return how many replicas the load needs, by the rule that asks for most, and why."""
    flights = use.in_flight or 0
    here = f"{flights} in flight" if flights else "nothing in flight"
    needs = [(int(bool(use.queued or flights)), here)]
    if rule.in_flight:
        words = f"{flights} in flight, {rule.in_flight} a replica"
        needs.append((math.ceil(flights / rule.in_flight), words))
    if rule.queued is not None:
        waiting = use.waiting + use.queued
        more = wanted + 1 if waiting > rule.queued * wanted else wanted
        words = f"{waiting} waiting, {rule.queued} a replica may"
        needs.append((more if waiting else 0, words))
    if rule.tokens_per_second and use.tokens is not None:
        words = f"{use.tokens:.0f} tokens/s, {rule.tokens_per_second:g} a replica"
        needs.append((math.ceil(use.tokens / rule.tokens_per_second), words))
    return max(needs, key=lambda one: one[0])


def _up(known: Scale, need: int, why: str, rule: Scaling, now: float) -> Scale:
    since = now if known.more_since is None else known.more_since
    window = WINDOW if rule.window is None else rule.window
    if now - since >= window:
        return Scale(wanted=need, words=why, began=known.began)
    return replace(known, more_since=since, less_since=None, most_since=0)


def _down(known: Scale, need: int, why: str, rule: Scaling, now: float) -> Scale:
    since = now if known.less_since is None else known.less_since
    highest = max(need, known.most_since if known.less_since is not None else 0)
    window = DOWN_WINDOW if rule.down_window is None else rule.down_window
    if now - since >= window:
        return Scale(wanted=highest, words=why, began=known.began)
    return replace(known, more_since=None, less_since=since, most_since=highest)


def _rule(profile: Profile) -> Scaling:
    return profile.scaling or Scaling()
