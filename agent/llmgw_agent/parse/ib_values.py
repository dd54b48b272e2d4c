"""Values of InfiniBand and RoCE ports in one form, whichever tool wrote them.

The kernel (sysfs, ibstatus) and libibumad (ibstat) name the same states differently.
"""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from llmgw.model.fabric import Port
from llmgw_agent.parse import plausible

ACTIVE = "ACTIVE"
DOWN = "DOWN"
LINK_UP = "LinkUp"
INFINIBAND = "InfiniBand"
ETHERNET = "Ethernet"

_STATES = {
    "down": DOWN,
    "init": "INIT",
    "initializing": "INIT",
    "armed": "ARMED",
    "active": ACTIVE,
    "active_defer": "ACTIVE_DEFER",
}
_PHYSICAL_STATES = {
    "sleep": "Sleep",
    "polling": "Polling",
    "disabled": "Disabled",
    "portconfigurationtraining": "PortConfigurationTraining",
    "linkup": LINK_UP,
    "linkerrorrecovery": "LinkErrorRecovery",
    "phytest": "PhyTest",
}
_LINK_LAYERS = {
    "infiniband": INFINIBAND,
    # What libibumad says where the kernel is too old to say it: there were no others then.
    "ib": INFINIBAND,
    "ethernet": ETHERNET,
}

_WHOLE = re.compile(r"[0-9]{1,19}\Z")
_MOST = (1 << 63) - 1
_LID = re.compile(r"0x[0-9a-f]{1,8}\Z|[0-9]{1,8}\Z", re.IGNORECASE)
_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})\Z", re.IGNORECASE)
_GUID_GROUPS = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}\Z", re.IGNORECASE)
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(?: Gb/sec\b.*)?\Z")
_DIGITS = re.compile(r"([0-9]{1,18})")


def whole(text: str | None) -> int | None:
    """Return a number in decimal digits that fits 63 bits; None for anything else."""
    number = int(text) if text and _WHOLE.match(text) else None
    return None if number is None or number > _MOST else number


def state(text: str | None) -> str | None:
    """Return a port's logical state as the kernel names it: `4: ACTIVE` and `Active` are one."""
    return _STATES.get(_name(text))


def physical_state(text: str | None) -> str | None:
    """Return a port's physical state: `5: LinkUp` and `LinkUp` are one."""
    return _PHYSICAL_STATES.get(_name(text).replace(" ", ""))


def link_layer(text: str | None) -> str | None:
    """Return `InfiniBand` or `Ethernet`; None for anything else."""
    return _LINK_LAYERS.get(_name(text))


def rate(text: str | None, logical: str | None, physical: str | None) -> int | None:
    """Return bit/s of `400 Gb/sec (4X NDR)` or of `400`.

    None where there is no link: what a port says of its rate then is a default.
    """
    match = _RATE.match(text or "")
    if match is None or logical == DOWN or physical not in {LINK_UP, None}:
        return None
    return plausible.bit_rate(round(float(match[1]) * 1e9))


def lid(text: str | None) -> int | None:
    """Return a local identifier, `75` or `0x4b`; None for 0: none was given to the port."""
    if not text or not _LID.match(text):
        return None
    return int(text, 16 if text[:2] in {"0x", "0X"} else 10) or None


def guid(text: str | None) -> str | None:
    """Return a GUID as `0x` and 16 digits; None for zeros.

    Tools write `0x100001`, the kernel `0000:0000:0010:0001`.
    """
    digits = text.replace(":", "") if text and _GUID_GROUPS.match(text) else text
    match = _GUID.match(digits or "")
    if match is None or not int(match[1], 16):
        return None
    return f"0x{int(match[1], 16):016x}"


def port_guid(gid: str | None) -> str | None:
    """Return the port's GUID of its first GID: the lower half, as libibumad has it."""
    try:
        number = int(ipaddress.IPv6Address(gid or ""))
    except ValueError:
        return None
    return guid(f"{number & (1 << 64) - 1:x}")


def in_order(ports: Iterable[Port]) -> tuple[Port, ...]:
    """Return ports as people count: mlx5_2 before mlx5_10."""
    return tuple(sorted(ports, key=lambda port: (counted(port.adapter), port.number)))


@lru_cache(maxsize=1024)
def counted(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return what to sort a name by so that its numbers count as numbers."""
    return tuple(
        (part.isascii() and part.isdigit(), whole(part) or 0, part)
        for part in _DIGITS.split(name)
        if part
    )


def _name(text: str | None) -> str:
    """Return the name of `4: ACTIVE` or `Active` in lower case."""
    return (text or "").rpartition(": ")[2].strip().lower()
