"""PCIe links that carry less than their card could: fewer lanes, or an older slot."""

from collections.abc import Iterable

from llmgw.model.device import Device


def slow_links(devices: Iterable[Device]) -> dict[str, float]:
    """Return, for each device whose link is slow, the share of its own bandwidth that it has."""
    found: dict[str, float] = {}
    for device in devices:
        if device.pci is not None and (share := _share(device)) < 1.0:
            found[device.uuid] = share
    return found


def _share(device: Device) -> float:
    """Return the link's bandwidth over the card's; 1 where it is not known.

    Each generation doubles the one before. The generation is the fastest that card and slot allow
    together: the one of the moment drops on an idle card.
    """
    pci = device.pci
    if pci is None:
        return 1.0
    share = 1.0
    if pci.lanes and pci.max_lanes:
        share *= min(1.0, pci.lanes / pci.max_lanes)
    if pci.max_generation and pci.card_generation:
        share *= 0.5 ** max(0, pci.card_generation - pci.max_generation)
    return share
