"""How many replicas what a profile has to do needs, by each rule of its scaling (REC-6).

*In flight* and *tokens*: what there is, divided by what one replica takes, rounded up. *Waiting*:
one more while more than `queued` wait for each replica that serves; on more replicas less waits, so
that this rule alone would take them away again at once. Therefore, for whatever one was added:

- the work at that moment (requests in flight, or by the engines' own count where that is more) and
  the number of replicas that served are remembered: that was too much for so many;
- fewer are enough only where each has less work than each had then.

So under a load that stays as it is no number of replicas that was too small is come back to, and
what is wanted comes to rest, however requests are spread and whatever is made of them.

As long as nothing was too much yet, waiting takes a replica to have enough with `concurrency`
requests and `queued` that wait; where the profile does not say its concurrency, one replica less is
tried at a time, while nothing waits.

The other two say by themselves when fewer are enough, so that nothing of theirs is remembered; but
that engines together make more tokens the fewer they are, where requests are spread badly. When
fewer were tried, and proved too few for no more requests within `TRIED`, requests count as above
for `AGAIN`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from llmgw.model.catalog import Profile, Scaling
from llmgw.plan.words import counted

TRIED = 300.0
"""Seconds within which more must be wanted again for it to be said that fewer were too few."""
AGAIN = 86_400.0
"""Seconds after which fewer are tried again where the load may have changed unseen."""


@dataclass(frozen=True, slots=True)
class Full:
    """Requests, and the number of replicas on which they were too many."""

    work: int
    replicas: int
    until: float | None = None
    """For how long that counts, monotonic seconds; None: for as long as it is remembered."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a profile's replicas have to do. None: a part of it is not known."""

    ready: int
    starting: int
    in_flight: int | None
    engines: int
    """Requests that their engines run or have waiting, as far as they say."""
    waiting: int
    queued: int
    tokens: float | None
    idle_for: float | None

    @property
    def nothing(self) -> bool:
        """Say whether it is known that nothing is asked of it at this moment."""
        return self.in_flight == 0 and not self.queued

    @property
    def work(self) -> int:
        """Return how many requests are there."""
        return max(self.in_flight or 0, self.engines) + self.queued


def rule_of(profile: Profile) -> Scaling:
    """Return a profile's scaling; one without rules where it has none."""
    return profile.scaling or Scaling()


def need(profile: Profile, use: Use, wanted: int, full: Full | None) -> tuple[int, str]:
    """Return how many replicas are needed by the rule that asks for most, and why.

    Args:
        profile: whose scaling it is.
        use: what its replicas have to do.
        wanted: how many are wanted so far.
        full: what was too much, if anything was.
    """
    needed, why = max(_needs(profile, use, wanted, full), key=lambda one: one[0])
    if full is not None and use.work:
        least = min(wanted, use.work * full.replicas // full.work + 1)
        if least > needed:
            many = counted(full.replicas, "replica")
            return least, f"{many} had too much with {counted(full.work, 'request')}"
    return needed, why


def too_much(
    full: Full | None, profile: Profile, use: Use, now: float, *, tried: int | None
) -> Full | None:
    """Return what is known to be too much once a replica is added.

    Args:
        full: what was known so far.
        profile: whose scaling it is.
        use: what its replicas have to do.
        now: monotonic seconds.
        tried: how many requests there were when fewer replicas were tried; None: they were not,
            or were enough for `TRIED`.
    """
    if not use.work or not use.ready:
        return full
    if _too_many_wait(profile, use):
        return Full(work=use.work, replicas=use.ready)
    if tried is not None and use.work <= tried:
        return Full(work=use.work, replicas=use.ready, until=now + AGAIN)
    return full


def still(full: Full | None, now: float) -> Full | None:
    """Return what is known to be too much, unless its time is over."""
    over = full is not None and full.until is not None and full.until <= now
    return None if over else full


def _too_many_wait(profile: Profile, use: Use) -> bool:
    """Say whether more wait than the replicas that serve may have waiting."""
    queued = rule_of(profile).queued
    return queued is not None and _waiting(use) > queued * use.ready


def _needs(profile: Profile, use: Use, wanted: int, full: Full | None) -> Iterator[tuple[int, str]]:
    rule, flights = rule_of(profile), use.in_flight or 0
    here = f"{flights} in flight" if flights else "nothing in flight"
    yield int(not use.nothing), here
    if rule.in_flight:
        yield (
            math.ceil(flights / rule.in_flight),
            f"{flights} in flight, {rule.in_flight} a replica",
        )
    if rule.queued is not None:
        words = f"{_waiting(use)} waiting, {rule.queued} a replica may"
        yield _for_what_waits(profile, rule.queued, use, wanted, full), words
    if rule.tokens_per_second and use.tokens is not None:
        words = f"{use.tokens:.0f} tokens/s, {rule.tokens_per_second:g} a replica"
        yield math.ceil(use.tokens / rule.tokens_per_second), words


def _for_what_waits(profile: Profile, queued: int, use: Use, wanted: int, full: Full | None) -> int:
    """Return how many are needed so that not more wait than may.

    None is added while one that is wanted does not serve yet: what waits is what it is for.
    """
    if _too_many_wait(profile, use):
        return wanted + 1 if use.ready >= wanted else wanted
    if full is not None or not use.work:
        return 0
    if profile.concurrency is not None:
        return min(wanted, math.ceil(use.work / (profile.concurrency + queued)))
    return wanted if _waiting(use) else wanted - 1


def _waiting(use: Use) -> int:
    return use.waiting + use.queued
