"""Which profile of a model a request starts, where it has several: the first that finds a place.

They are tried in the order of the catalog, within one pass and in thought: the plan that would
start one is made, and when it refuses that profile the next one is tried. Only the last of these
plans is carried out. Nothing of this is remembered between passes but since when a request waits,
so that what was refused is tried again in each pass, the first profile first, until something runs.

A place that may become free by itself is waited for a while before another profile is tried.
"""

from collections.abc import Callable, Mapping

import msgspec

from llmgw.plan.records import Desired, Observed, Plan, Refusal
from llmgw.plan.scaling import (
    Key,
    Scale,
    may_run,
    on_demand,
    running,
    scale,
    waiting_helps,
    wants,
)

PATIENCE = 30.0
"""Seconds for which the place of a profile is waited for, from the first request on."""


def woken(
    before: Mapping[Key, Scale],
    desired: Desired,
    observed: Observed,
    now: float,
    at: float,
    plan: Callable[[Desired], Plan],
) -> dict[Key, Scale]:
    """Return what `scale` does, for each model with the profile that finds a place.

    Args:
        before: what this returned at the moment before; empty for a leader that begins.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds.
        at: the same moment in seconds since the epoch.
        plan: makes the plan of what it is told, and does nothing.
    """
    refused: dict[Key, Refusal] = {}
    while True:
        found = scale(before, desired, observed, now, at, refused)
        open_ = _open(found, desired, observed, refused)
        if not open_:
            return found
        refusals = plan(msgspec.structs.replace(desired, wants=wants(found))).refusals
        news = {
            (one.model, one.profile): one
            for one in refusals
            if one.model in open_ and not (waiting_helps(one) and now - open_[one.model] < PATIENCE)
        }
        if news.keys() <= refused.keys():
            return found
        refused |= news


def _open(
    found: Mapping[Key, Scale], desired: Desired, observed: Observed, refused: Mapping[Key, Refusal]
) -> dict[str, float]:
    """Return the models of which a request is to start one of several profiles, and since when."""
    models = {}
    for entry in desired.models:
        model = entry.model
        keys = [(model.name, profile.name) for profile in may_run(model)]
        asked = [
            scaled.asked
            for key in keys
            if (scaled := found.get(key)) is not None and scaled.asked is not None
        ]
        several = len(keys) > 1 and any(map(on_demand, may_run(model)))
        tried = all(key in refused for key in keys)
        if several and asked and not tried and not running(observed, model.name):
            models[model.name] = min(asked)
    return models
