"""What the helper that measures memory bandwidth is asked, and what it answers."""

from typing import Final

from llmgw.model.record import Record

PASSES: Final = 4


class MeasureBandwidth(Record, frozen=True, kw_only=True):
    """Read memory on some processors, each its own share.

    Attributes:
        cpus: one worker on each.
        share_bytes: what each of them reads in a pass.
        core_bytes: what the first one reads in a pass of its own; 0: it is not measured alone.
        passes: how many; the best one counts.
    """

    cpus: tuple[int, ...]
    share_bytes: int
    core_bytes: int
    passes: int = PASSES


class MeasuredBandwidth(Record, frozen=True, kw_only=True):
    """Bytes per second that all workers together read, and the first one alone."""

    rate: float
    core_rate: float | None = None
