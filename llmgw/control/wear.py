"""What devices say of lasting damage, as news: memory errors that could not be repaired. Pure."""

from collections.abc import Iterator

from llmgw.model.device import DeviceHealth, DeviceSample
from llmgw.model.node import Heartbeat


def damage(old: Heartbeat | None, new: Heartbeat) -> Iterator[tuple[str, str]]:
    """Yield UUID and words of each device that has damage which it had not.

    Args:
        old: the node's last heartbeat; None: there was none.
        new: the newest.
    """
    before = _counted(old.devices if old is not None else None)
    for reading in new.devices or ():
        count = reading.ecc_uncorrected
        if count and count > before.get(reading.uuid, 0):
            yield reading.uuid, f"{count} uncorrected ECC errors since the driver was loaded"
    failed = {one.uuid for one in _health(old) if one.remap_failed}
    for health in new.health or ():
        if health.remap_failed and health.uuid not in failed:
            yield health.uuid, "a row of its memory could not be remapped"


def _counted(readings: tuple[DeviceSample, ...] | None) -> dict[str, int]:
    return {one.uuid: one.ecc_uncorrected for one in readings or () if one.ecc_uncorrected}


def _health(beat: Heartbeat | None) -> tuple[DeviceHealth, ...]:
    return (beat.health if beat is not None else None) or ()
