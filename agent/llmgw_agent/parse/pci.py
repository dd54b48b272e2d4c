"""PCI addresses: tools write the same one in several ways."""

import re

_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})"
    r"(?:\.(?P<function>[0-7]))?\Z"
)


def pci_key(text: str | None) -> str | None:
    """Return an address as one text, `0008:01:00`; None when it is none.

    The domain has four digits or eight, or is left out where it is 0; the kernel log leaves out
    the function. A card is one device, so the function is left out here as well.
    """
    match = _ADDRESS.match(text.strip().lower()) if text else None
    if match is None:
        return None
    domain, bus, device = (int(match[name] or "0", 16) for name in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}"
