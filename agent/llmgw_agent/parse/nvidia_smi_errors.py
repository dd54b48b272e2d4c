"""What nvidia-smi says where it lists no cards, or not all of them."""

import re

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.parse.lines import lines_of

MISMATCH = "the NVIDIA driver was updated while the old one is loaded: reboot the machine"
NOT_LOADED = "nvidia-smi is there but its driver is not loaded: load or install the NVIDIA driver"

_DRIVER_WORDS = (
    ("Driver/library version mismatch", MISMATCH),
    ("couldn't communicate with the NVIDIA driver", NOT_LOADED),
    ("Failed to initialize NVML: Driver Not Loaded", NOT_LOADED),
)
_PLACE = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_LOST = re.compile(
    r"[ \t]*(Unable to determine the device handle for gpu[ \t]*"
    rf"(?:({_PLACE})|(\d{{1,3}})(?::[ \t]*({_PLACE}))?):[^\n]*)",
    re.IGNORECASE | re.ASCII,
)
"""The card is named by its address, glued to the word in newer drivers, by its number, or both."""

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')


def lost_cards(text: str) -> tuple[Card, ...]:
    """Return the cards that a text says can't be reached, each once."""
    found: dict[tuple[str | None, int | None], Card] = {}
    for line in lines_of(text):
        match = _LOST.match(line)
        if match is None:
            continue
        address, index = match[2] or match[4], None if match[3] is None else int(match[3])
        said = " ".join(match[1].split())[:200]
        card = Card(index=index, pci_address=address, trouble=f"nvidia-smi: {said}")
        found.setdefault((address, index), card)
    return tuple(found.values())


def read_failure(text: str, rc: int | None = None) -> CardsSeen:
    """Return what nvidia-smi says where it lists no cards.

    Args:
        text: everything that it printed.
        rc: its exit status, for the words of an error alone.

    Raises:
        Unreadable: nothing that is known; the message quotes it.
    """
    cards = lost_cards(text)
    if cards:
        said = " ".join(text.split())[:200]
        warning = f"nvidia-smi reads no card while one is broken: {said}"
        return CardsSeen(cards=cards, warning=warning)
    for mark, explained in _DRIVER_WORDS:
        if mark in text:
            return CardsSeen(warning=explained)
    if "No devices were found" in text:
        return CardsSeen()
    status = "" if rc is None else f" exit status {rc}:"
    raise Unreadable(f"nvidia-smi:{status} {' '.join(text.split())[:200]!r}")


def unknown_field(text: str) -> str | None:
    """Return the field that this driver does not know, when that is what it says."""
    match = _UNKNOWN_FIELD.search(text)
    return None if match is None else match[1]
