"""What a node's sources of facts say of themselves, as news: failing once, and once well again."""

from collections.abc import Iterator, Sequence

from llmgw.model.events import INFO, WARNING
from llmgw.model.node import ProbeState

RECENT = 60.0
"""Seconds: a source that is heard of for the first time and has failed for longer than that failed
under an earlier control plane too, which told it."""


def news(
    old: Sequence[ProbeState] | None, new: Sequence[ProbeState] | None
) -> Iterator[tuple[str, str]]:
    """Yield severity and words for each source that began to fail, or that recovered.

    Args:
        old: what the node's last heartbeat said; None: there was none, or it did not say.
        new: what the newest says.
    """
    before = {probe.name: probe for probe in old or ()}
    for probe in new or ():
        was = before.get(probe.name)
        failed = was is not None and was.error is not None
        if probe.error is not None and not failed:
            if was is not None or (probe.failing or 0.0) <= RECENT:
                yield WARNING, f"can't read {probe.name}: {probe.error}"
        elif probe.error is None and failed:
            yield INFO, f"reads {probe.name} again"
