"""A card's PCIe link: what it carries, and whether it could carry more."""

from collections.abc import Mapping

from llmgw.model.device import PciLink
from llmgw_agent.parse.pci import pci_key

LANE_GBS: Mapping[int, float] = {
    1: 2.5 * 8 / 10 / 8,
    2: 5 * 8 / 10 / 8,
    3: 8 * 128 / 130 / 8,
    4: 16 * 128 / 130 / 8,
    5: 32 * 128 / 130 / 8,
    6: 64 * 242 / 256 / 8,
    7: 128 * 242 / 256 / 8,
}
"""GB/s of one lane in one direction, by generation: transfers a second times the share of them that
carries data, from the PCI Express base specifications 1.0 to 7.0 (8b/10b, from the third on
128b/130b, from the sixth on flits with 242 of 256 bytes for packets).
"""


def bandwidth(generation: int | None, lanes: int | None) -> float | None:
    """Return the GB/s of a link in one direction; None where a part is not known."""
    rate = LANE_GBS.get(generation or 0)
    return None if rate is None or not lanes else rate * lanes


def slow_link(link: PciLink, address: str | None) -> str | None:
    """Return in words that a card's link carries less than the card could; None when it does not.

    Only what the driver tells is compared. A link of one lane at most is no slot: the card is
    attached otherwise (NVLink-C2C of a GH200) and this one is for configuration alone.

    Args:
        link: as read; the generation in use at the moment is no part of it, idle cards lower it.
        address: the card's.
    """
    if link.max_lanes == 1:
        return None
    few = bool(link.lanes and link.max_lanes) and (link.lanes or 0) < (link.max_lanes or 0)
    generations = (link.max_generation, link.card_generation)
    old = None not in generations and (generations[0] or 0) < (generations[1] or 0)
    found = []
    if few:
        found.append(f"{link.lanes} of its {link.max_lanes} lanes are in use")
    if old:
        found.append(f"the slot is of generation {generations[0]}, the card of {generations[1]}")
    if not found:
        return None
    carried = bandwidth(generations[0], link.lanes)
    possible = bandwidth(max(g or 0 for g in generations), link.max_lanes)
    rate = ""
    if carried is not None and possible is not None:
        rate = f": it carries {carried:.1f} of {possible:.1f} GB/s"
    words = f"slow PCIe link, {' and '.join(found)}{rate}"
    return f"{words}; compare LnkCap and LnkSta of `lspci -vvv -s {_lspci_address(address)}`"


def _lspci_address(address: str | None) -> str:
    key = pci_key(address)
    if address is None or key is None:
        return "ADDRESS"
    _, dot, function = address.strip().rpartition(".")
    return f"{key}.{function if dot else 0}"
