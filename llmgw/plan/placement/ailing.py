"""Devices that are given out last: something is wrong with them, or they are throttling.

What keeps everything off a device is its `unhealthy`; this is what a person should look at while
it still computes.
"""

from collections.abc import Iterable

from llmgw.model.condition import BAD_THROTTLES
from llmgw.model.device import DeviceHealth, DeviceSample, Xid

SICK = 0
THROTTLING = 50
WELL = 100

_THROTTLES = frozenset(BAD_THROTTLES)
"""Heat, power and the hardware's own brake: a power limit that somebody set is no fault."""
_ASK_FOR_SOMEBODY = ("reset", "reboot", "replace")


def ailing(readings: Iterable[DeviceSample], health: Iterable[DeviceHealth]) -> dict[str, int]:
    """Return, for each device that is sick or throttling, how well it is: 0-100."""
    found: dict[str, int] = {}
    for reading in readings:
        reasons = reading.throttle_reasons
        if reasons and not _THROTTLES.isdisjoint(reasons):
            found[reading.uuid] = THROTTLING
        if reading.ecc_uncorrected:
            found[reading.uuid] = SICK
    for one in health:
        if _is_sick(one):
            found[one.uuid] = SICK
    return found


def _is_sick(health: DeviceHealth) -> bool:
    if (
        health.ecc_uncorrected_volatile
        or health.nvlinks_down
        or health.remap_pending
        or health.remap_failed
        or health.retire_pending
    ):
        return True
    asks = health.recovery_action
    if asks is not None and asks != "none":
        return True
    return bool(health.xids) and any(_lasts(xid) for xid in health.xids or ())


def _lasts(xid: Xid) -> bool:
    """Say whether a driver error is not over.

    Of one that asks for nobody only the driver says whether it is; where it can't, it is forgotten.
    """
    if xid.action in _ASK_FOR_SOMEBODY:
        return xid.cleared is not True
    return xid.action is None and xid.cleared is False
