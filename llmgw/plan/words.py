"""How a decision is worded. What people read of a plan is made here and in the filters."""

from collections.abc import Mapping, Sequence

from llmgw.model.device import Device

SHOWN = 3
"""How many of a kind a sentence names before it counts the rest."""

_MIG_BASE = 1000
_MIG_PER_CARD = 100


def gigabytes(count: int) -> str:
    """Return bytes as a bare number of GB: `24`, `7.6`."""
    return f"{count / 1e9:.1f}".removesuffix(".0")


def device_name(device: Device) -> str:
    """Return a device as it is shown within its node: `gpu3`, `gpu3/mig1`, or its UUID."""
    number = device.number
    if number is None:
        return device.uuid
    if number < _MIG_BASE:
        return f"gpu{number}"
    card, instance = divmod(number - _MIG_BASE, _MIG_PER_CARD)
    return f"gpu{card}/mig{instance}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 replica`, `3 replicas`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def some(items: Sequence[str], separator: str = ", ") -> str:
    """Return the first items joined, and how many more there are."""
    shown = separator.join(items[:SHOWN])
    rest = len(items) - SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def largest(has: Mapping[str, int]) -> str:
    """Return who has most of something, most first; empty: nobody has any."""
    return some(most_first(has))


def most_first(has: Mapping[str, int]) -> list[str]:
    """Return who has something, by how much."""
    return sorted((name for name in has if has[name]), key=lambda name: (-has[name], name))
