"""Values as nvidia-smi prints them, bare or with their unit."""

import re

from llmgw_agent.parse import plausible
from llmgw_agent.parse.cards import measured_clock, measured_heat

MIB = 1 << 20

_NOT_THERE = frozenset(
    {"N/A", "Not Supported", "Not Found", "No Data", "Requested functionality has been deprecated"}
)
"""What stands where a card has no such value; `--query-…` puts it into brackets."""

_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z%/]*)\Z", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)


def not_there(text: str) -> bool:
    """Say whether the driver itself says that there is no such value."""
    return text.strip().removeprefix("[").removesuffix("]") in _NOT_THERE


def failed(text: str) -> bool:
    """Say whether an error stands in a value's place."""
    return text.startswith("ERR!") or "Error" in text


def words(text: str) -> str | None:
    """Return a text; None where there is none or something stands in its place."""
    text = text.strip()
    return None if not text or not_there(text) or failed(text) or text.startswith("[") else text


def card_uuid(text: str) -> str | None:
    """Return a card's UUID; None for anything else, a part of one too."""
    return text.strip() if _UUID.match(text.strip()) else None


def number(text: str, unit: str = "") -> float | None:
    """Return a number, bare or with its unit; None for anything else."""
    match = _NUMBER.match(text.strip()) if text else None  # most columns were not asked for
    if match is None or match[2] not in ("", unit):
        return None
    return float(match[1])


def whole(text: str, unit: str = "") -> int | None:
    """Return a whole number of 0 or more, bare or with its unit; None for anything else."""
    value = number(text, unit)
    return None if value is None else plausible.count(value // 1)


def index(text: str) -> int | None:
    """Return a card's number."""
    return plausible.index(whole(text))


def pid(text: str) -> int | None:
    """Return the number of a process."""
    return plausible.pid(whole(text))


def mib(text: str) -> int | None:
    """Return bytes of a count of MiB, of a device's memory."""
    value = number(text, "MiB")
    return None if value is None else plausible.memory(value * MIB // 1)


def fan(text: str) -> float | None:
    """Return a fan's speed, `114 %`, which may be above 100."""
    return plausible.fan(number(text, "%"))


def percent(text: str) -> float | None:
    """Return a share, 0 to 100."""
    return plausible.percent(number(text, "%"))


def celsius(text: str) -> float | None:
    """Return a chip's temperature."""
    return measured_heat(number(text, "C"))


def watts(text: str) -> float | None:
    """Return a power."""
    return plausible.watts(number(text, "W"))


def megahertz(text: str) -> float | None:
    """Return a running clock."""
    return measured_clock(number(text, "MHz"))


def switch(text: str, on: str = "Enabled", off: str = "Disabled") -> bool | None:
    """Return whether something is on; None where it is neither on nor off."""
    return {on: True, off: False}.get(text.strip())
