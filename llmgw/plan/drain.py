"""When a replica that gets no new requests is stopped (REC-5).

What it has in flight is the gateways' to say. "Nothing" is believed once each of them is known to
have taken the routes without it, and to have told since what it has there: a link may be silently
dead (LINK-5), and a gateway behind it sends on by the old routes. Such a gateway holds a drain
until it is heard again, or its stream is cut, three heartbeat intervals after its last word.

Of a gateway without a stream nothing is known; it may serve on by its old routes for as long as it
likes, and what it sends is in no report. Then the engine's own count decides, said after the drain
began; where that is not known either, only the limit does. A request that such a gateway sends
afterwards finds no engine, and goes to another.

One that was told to stop has its process killed within a minute. Where that can't be done (a driver
holds it), it may hang for ever: from `HANGS_AFTER` beyond the limit on it is not waited for. What
it holds stays held; others are placed, and give way, as if it were there for good.
"""

from llmgw.base.units import show_seconds
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.records import Drain, Load, Observed
from llmgw.plan.words import counted

LEAST = 1.5
"""Seconds before any count is believed: gateways hear of a change within 0.25 s, and tell what they
sent until then within 0.75 s."""

HANGS_AFTER = 300.0
"""Seconds beyond the limit of a drain after which a replica that was told to stop is not waited
for. By the limit it was told at the latest, so that it is at least so long ago."""


def hanging(observed: Observed, limit: float) -> frozenset[str]:
    """Return the replicas that were told to stop long ago and do not end.

    What failed stays in the books for a while after its end, so that people see why: it hangs no
    more.

    Args:
        observed: the fleet.
        limit: seconds after which a replica that drains is stopped whatever it does.
    """
    long = limit + HANGS_AFTER
    there = {
        replica.id
        for replica in observed.replicas
        if any(shard.state not in {FAILED, STOPPED} for shard in replica.shards)
    }
    told = (one.replica for one in observed.drains if one.told_before and one.lasts >= long)
    return frozenset(told) & there


def may_stop(drain: Drain, load: Load | None, limit: float) -> str | None:
    """Return why a drained replica is stopped now; None while it goes on.

    Args:
        drain: since when it gets no requests.
        load: what it has in flight; None: nobody said anything.
        limit: seconds after which it is stopped whatever it does.
    """
    if drain.lasts < LEAST:
        return None
    left = in_flight(drain, load)
    if left == 0:
        return "nothing is in flight there"
    if drain.lasts < limit:
        return None
    after = f"the limit of {show_seconds(limit)} is over"
    if left is None:
        return f"{after}; what is in flight there is not known"
    return f"{after} with {counted(left, 'reply', 'replies')} in flight"


def in_flight(drain: Drain, load: Load | None) -> int | None:
    """Return what a draining replica has to finish; None: not known."""
    if load is None:
        return None
    if load.in_flight is not None:
        return load.in_flight if load.in_flight or drain.settled else None
    said_since = load.age is not None and load.age <= drain.lasts - LEAST
    if load.running is None or not said_since:
        return None
    return load.running + (load.waiting or 0)
