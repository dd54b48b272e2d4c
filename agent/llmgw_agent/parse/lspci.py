"""`lspci`, with `-vv` or without: NVIDIA GPUs and NVSwitches and Mellanox adapters on the bus.

Format: pciutils, `lspci.c` (`show_terse`) and `ls-caps.c` (`cap_express_link`). A card that fell
off the bus reads as all ones: revision ff, and `!!! Unknown header type 7f` with `-v`.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.tool import Tool

GPU = "gpu"
SWITCH = "switch"
ADAPTER = "adapter"

_DEVICE = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<class>[^:]+?)"
    r"(?: \[[0-9a-f]{4}\])?: (?P<name>.+?)(?: \[(?P<ids>[0-9a-f]{4}:[0-9a-f]{4})\])?"
    r"(?: \(rev (?P<revision>[0-9a-f]{2})\))?(?: \(prog-if [^)]*\)+)?\Z"
)
_LINK = re.compile(r"Speed (?:(?P<speed>[\d.]+)GT/s(?: \([^)]*\))?|[^,]*), Width x(?P<width>\d+)")
_LANES_MOST = 32
_GONE = "ff"
_NO_HEADER = "Unknown header type 7f"

_KINDS = {
    ("NVIDIA Corporation", "VGA compatible controller"): GPU,
    ("NVIDIA Corporation", "3D controller"): GPU,
    ("NVIDIA Corporation", "Display controller"): GPU,
    ("NVIDIA Corporation", "Bridge"): SWITCH,
    ("Mellanox Technologies", "Infiniband controller"): ADAPTER,
    ("Mellanox Technologies", "Ethernet controller"): ADAPTER,
    ("Mellanox Technologies", "Network controller"): ADAPTER,
}


class BusLink(Record, frozen=True, kw_only=True):
    """One end of a PCIe link: GT/s a lane, and lanes. None where it is not told."""

    speed: float | None = None
    lanes: int | None = None


class BusDevice(Record, frozen=True, kw_only=True):
    """A device on the bus."""

    kind: str
    """`gpu`, `switch` or `adapter`."""
    address: str
    pci: str
    """See `parse.pci.pci_key`."""
    class_name: str
    name: str
    """Without its maker; `Device 2330` where the list of names is older than the device."""
    vendor: str
    ids: str | None = None
    """Vendor and device in hexadecimal, with `-nn`."""
    revision: str | None = None
    gone: bool
    """It is listed and does not answer: it fell off the bus."""
    capable: BusLink | None = None
    """What the device itself can do (LnkCap)."""
    now: BusLink | None = None
    """What the link runs at (LnkSta); slower on an idle card."""
    numa_node: int | None = None
    driver: str | None = None


def read(text: str) -> tuple[BusDevice, ...]:
    """Return the GPUs, switches and adapters, in the order of the listing.

    Raises:
        Unreadable: there is text, and no line of it names a device.
    """
    lines = text.splitlines()
    starts = [place for place, line in enumerate(lines) if _DEVICE.match(line.rstrip())]
    if not starts and text.strip():
        raise Unreadable(f"lspci: no device in {text.strip().splitlines()[0][:80]!r}")
    blocks = (lines[begin:end] for begin, end in pairwise([*starts, len(lines)]))
    return tuple(device for block in blocks if (device := _device(block)) is not None)


def _device(block: list[str]) -> BusDevice | None:
    head = _DEVICE.match(block[0].rstrip())
    pci = None if head is None else pci_key(head["address"])
    if head is None or pci is None:
        return None
    vendor = next((one for one, _ in _KINDS if head["name"].startswith(f"{one} ")), None)
    kind = _KINDS.get((vendor or "", head["class"]))
    if vendor is None or kind is None:
        return None
    facts = _facts(block[1:])
    return BusDevice(
        kind=kind,
        address=head["address"],
        pci=pci,
        class_name=head["class"],
        vendor=vendor,
        name=head["name"].removeprefix(vendor).strip(),
        ids=head["ids"],
        revision=head["revision"],
        gone=head["revision"] == _GONE or any(_NO_HEADER in line for line in block),
        capable=_link(facts.get("LnkCap")),
        now=_link(facts.get("LnkSta")),
        numa_node=_number(facts.get("NUMA node")),
        driver=facts.get("Kernel driver in use"),
    )


def _facts(lines: Iterable[str]) -> dict[str, str]:
    """Return what stands behind the first colon, by what stands before; the first of a name."""
    facts: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.strip().partition(":")
        if colon:
            facts.setdefault(name, value.strip())
    return facts


def _link(told: str | None) -> BusLink | None:
    found = None if told is None else _LINK.search(told)
    if found is None:
        return None
    lanes = int(found["width"]) if len(found["width"]) <= 2 else 0
    # A link that is down has a width of 0, and one that reads as all ones of 63: it has none.
    return BusLink(speed=_speed(found["speed"]), lanes=lanes if 0 < lanes <= _LANES_MOST else None)


def _speed(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _number(text: str | None) -> int | None:
    """Return a NUMA node; None where it is none: -1 is what a machine without them says."""
    known = text is not None and len(text) <= 4 and text.isascii() and text.isdigit()
    return int(text) if text is not None and known else None


TOOLS = (Tool(name="lspci", how="lspci -vvv", read=read),)
