"""How a node's sources of facts are doing, in words: commands and console say the same."""

from collections.abc import Iterable

from llmgw.model.condition import Ages, Fact
from llmgw.model.node import ProbeState

_STEP = 5
"""Seconds: what is younger than a minute is told in steps of so many."""
_GRACE = 3.0
"""Seconds that a reading may take and wait for the next heartbeat without being late."""


def by_trouble(probes: Iterable[ProbeState]) -> tuple[ProbeState, ...]:
    """Return probes with those first that fail, the one that fails longest before the others."""
    return tuple(sorted(probes, key=lambda one: (one.error is None, -(one.failing or 0.0))))


def probe_fact(probe: ProbeState, ages: Ages) -> Fact:
    """Return how a source of facts is doing, since when, and why.

    A page at rest says the same with every heartbeat: whether a source is on time, not its age, and
    what does change in steps of five seconds.
    """
    each = "" if probe.period is None else f"every {probe.period:g}s"
    read = "never read" if probe.age is None else f"read {_stepped(probe.age, ages)} ago"
    if probe.error is not None:
        since = "" if probe.failing is None else f" for {_stepped(probe.failing, ages)}"
        said = ", ".join(word for word in (read, each) if word)
        return Fact(words=f"fails{since}: {probe.error}; {said}", wrong=True)
    if probe.age is None:
        read = "nothing read"
    elif probe.period is not None:
        late = probe.age - probe.period
        on_time = late <= max(_GRACE, probe.period / 2)
        read = "on time" if on_time else f"late by {_stepped(late, ages)}"
    return Fact(words=", ".join(word for word in (each, read) if word))


def _stepped(seconds: float, ages: Ages) -> str:
    if not _STEP <= seconds < 60:
        return f"<{_STEP}s" if seconds < _STEP else ages(seconds)
    return f"{int(seconds) // _STEP * _STEP}s"
