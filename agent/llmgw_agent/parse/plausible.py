"""What a reading can be: a figure that nothing in a machine can have is no reading.

Tools pass on what a driver or a sensor gave them, and that may be anything: a value that stands for
none, a number that was not written, one that another program made up. Each function takes a number
in the unit that it is named after and returns it, or None where it is none, not a number, or
outside of what there is. 0 is told where 0 was read, without a sign.
"""

from typing import Final

MOST_CARDS: Final = 256
"""More than any machine has."""

_MOST_WATTS: Final = 10_000.0
_LEAST_CELSIUS, _MOST_CELSIUS = -55.0, 200.0
_MOST_FAN: Final = 300.0
_MOST_MEGAHERTZ: Final = 10_000.0
_MOST_MEMORY: Final = 1 << 44
"""Bytes: a hundred times what a device of today has."""
_MOST_SIZE: Final = (1 << 63) - 1
"""Bytes of a filesystem: what a record may carry."""
_MOST_COUNT: Final = 1 << 53
"""More than anything is counted to, and what every reader of JSON can carry."""
_FIRST_INSTANCE: Final = 1000
"""Where numbers of MIG instances begin: no card has such a number."""
_MOST_BIT_RATE: Final = 10**14
_MOST_PID: Final = 1 << 22
"""PID_MAX_LIMIT of the kernel's include/linux/threads.h."""
_MOST_SECONDS: Final = 100 * 366 * 86400.0
"""Of a machine that is up."""
_LAST_MOMENT: Final = 7_258_118_400.0
"""2200-01-01."""


def watts(value: float | None) -> float | None:
    """Return what something in a machine may draw."""
    return _within(value, 0.0, _MOST_WATTS)


def celsius(value: float | None) -> float | None:
    """Return a temperature; one that lies outside is a sensor's that is not there."""
    found = _within(value, _LEAST_CELSIUS, _MOST_CELSIUS)
    return None if found in {_LEAST_CELSIUS, _MOST_CELSIUS} else found


def percent(value: float | None) -> float | None:
    """Return a share, 0 to 100."""
    return _within(value, 0.0, 100.0)


def fan(value: float | None) -> float | None:
    """Return a fan's speed in percent of what it is rated for, which it may exceed (`nvml.h`)."""
    return _within(value, 0.0, _MOST_FAN)


def megahertz(value: float | None) -> float | None:
    """Return a clock."""
    return _within(value, 0.0, _MOST_MEGAHERTZ)


def bit_rate(value: float | None) -> int | None:
    """Return bit/s of a link; 0 is no rate."""
    return None if value is None else _whole(value, 1, _MOST_BIT_RATE)


def memory(value: float | None) -> int | None:
    """Return bytes of a device's memory."""
    return _whole(value, 0, _MOST_MEMORY)


def size(value: float | None) -> int | None:
    """Return bytes of anything, a filesystem's too."""
    return _whole(value, 0, _MOST_SIZE)


def count(value: float | None) -> int | None:
    """Return how many there were of something."""
    return _whole(value, 0, _MOST_COUNT)


def index(value: float | None) -> int | None:
    """Return a card's number."""
    return _whole(value, 0, _FIRST_INSTANCE - 1)


def pid(value: float | None) -> int | None:
    """Return the number of a process."""
    return _whole(value, 1, _MOST_PID)


def up(value: float | None) -> float | None:
    """Return seconds since a machine was started."""
    return _within(value, 0.0, _MOST_SECONDS)


def moment(value: float | None) -> float | None:
    """Return seconds since the epoch, before the year 2200."""
    return _within(value, 0.0, _LAST_MOMENT)


def _within(value: float | None, least: float, most: float) -> float | None:
    if value is None or not least <= value <= most:
        return None  # not a number is within nothing
    return float(value) or 0.0


def _whole(value: float | None, least: int, most: int) -> int | None:
    if value is None or not least <= value <= most or (not isinstance(value, int) and value % 1):
        return None
    return int(value)
