"""How much a device works, which is not how busy it says it is."""

from typing import Literal

from llmgw.model.device import DeviceSample
from llmgw.model.record import Record

SM_ACTIVE: Literal["sm_active"] = "sm_active"
POWER: Literal["power"] = "power"

WorkSource = Literal["sm_active", "power"]
"""What the figure was made of."""


class Work(Record, frozen=True, kw_only=True):
    """How much of what it could do a device does. `ratio`: 0-1; draw may exceed its limit a bit."""

    ratio: float
    source: WorkSource


def work(sample: DeviceSample) -> Work | None:
    """Return the work of a device: its active multiprocessors, else its draw against its limit.

    The driver's own utilisation is the share of time in which any kernel ran, one that does next to
    nothing too, so it is never taken. None when neither can be read.
    """
    if sample.sm_active_percent is not None:
        return Work(ratio=sample.sm_active_percent / 100, source=SM_ACTIVE)
    draw, limit = sample.power_watts, sample.power_limit_watts
    if draw is None or limit is None or limit <= 0:
        return None
    return Work(ratio=draw / limit, source=POWER)
