"""NVIDIA cards on the PCI bus, as sysfs lists it: there without any driver as well.

Format: kernel documentation, PCI/sysfs-pci.rst; `uevent` holds `DRIVER=`, `PCI_CLASS=` and
`PCI_ID=` (drivers/pci/pci-driver.c, `pci_uevent`), numbers in hexadecimal.
"""

from collections.abc import Mapping

from llmgw.model.record import Record
from llmgw_agent.parse.pci import pci_key

VENDORS = ("*/vendor",)
"""Files below /sys/bus/pci/devices that `nvidia` reads."""

_NVIDIA = "10DE"
_DISPLAY = 0x03
"""Class of VGA and 3D controllers: its first byte."""


class BusCard(Record, frozen=True, kw_only=True):
    """A card on the bus."""

    address: str
    """As sysfs names its directory: `0000:19:00.0`."""
    pci: str
    """See `parse.pci.pci_key`."""
    driver: str | None = None
    """What drives it: `nvidia`, `nouveau`, `vfio-pci`; None: nothing does."""


def nvidia(vendors: Mapping[str, str]) -> tuple[str, ...]:
    """Return the addresses of the devices that NVIDIA made, cards or not."""
    return tuple(
        path.partition("/")[0]
        for path, vendor in sorted(vendors.items())
        if vendor.upper() == f"0X{_NVIDIA}"
    )


def cards(files: Mapping[str, str]) -> tuple[BusCard, ...]:
    """Return the NVIDIA cards of a listing of /sys/bus/pci/devices, by address.

    Its `uevent` tells of a device; other files are passed over.
    """
    events = {path: text for path, text in files.items() if path.endswith("/uevent")}
    found = (_card(path.partition("/")[0], text) for path, text in sorted(events.items()))
    return tuple(card for card in found if card is not None)


def _card(address: str, uevent: str) -> BusCard | None:
    facts = dict(line.split("=", 1) for line in uevent.splitlines() if "=" in line)
    pci = pci_key(address)
    if pci is None or facts.get("PCI_ID", "").partition(":")[0].upper() != _NVIDIA:
        return None
    try:
        display = int(facts.get("PCI_CLASS", ""), 16) >> 16 == _DISPLAY
    except ValueError:
        return None
    return BusCard(address=address, pci=pci, driver=facts.get("DRIVER")) if display else None
