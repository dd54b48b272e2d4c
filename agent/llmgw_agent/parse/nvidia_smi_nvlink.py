"""`nvidia-smi nvlink -s`, `-e` and `-info`: the NVLinks of each card, their rate and errors."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

_CARD: Final = re.compile(r"GPU (\d{1,4}): (.*?) ?(?:\(UUID: ([^)\s]+)\))?\Z")
"""Of a line whose runs of blanks are one blank: else a long run would be tried at each place."""
_LINK: Final = re.compile(r"Link (\d{1,4}): (.+)\Z")
_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) GB/s\Z")
_COUNTER: Final = re.compile(r"([A-Za-z][\w -]*): (\d{1,15})\Z")
_INACTIVE: Final = ("<inactive>", "inactive")
_NO_LINKS: Final = re.compile(r"unable to retrieve nvlink information", re.IGNORECASE)

_COUNTERS: Final = {
    "Replay Errors": "replay_errors",
    "Recovery Errors": "recovery_errors",
    "CRC Errors": "crc_errors",
    # Blackwell's links have other counters; these are recoveries as well. Named after the words
    # of driver 595, not after recorded output.
    "Total link recovery events": "recovery_errors",
}


class Nvlink(Record, frozen=True, kw_only=True):
    """One link. Counts of errors are since the driver was loaded; None: not in this text."""

    number: int
    active: bool | None = None
    rate: int | None = None
    """bit/s in each direction."""
    replay_errors: int | None = None
    recovery_errors: int | None = None
    crc_errors: int | None = None


class CardLinks(Record, frozen=True, kw_only=True):
    """The links of one card."""

    index: int
    name: str | None = None
    uuid: str | None = None
    links: tuple[Nvlink, ...] | None = None
    """None: this text tells of none, as when all of them are down or none was fitted."""


def read_nvlink(text: str) -> tuple[CardLinks, ...]:
    """Return the links of each card; nothing at all is what machines without NVLink print.

    Raises:
        Unreadable: there is text, and neither a card nor word of missing links in it.
    """
    cards: list[CardLinks] = []
    links: list[dict[int, Nvlink]] = []
    for line in lines_of(text):
        said = " ".join(line.split())
        if card := _CARD.match(said):
            cards.append(CardLinks(index=int(card[1]), name=card[2] or None, uuid=card[3]))
            links.append({})
        elif cards and (link := _LINK.match(said)):
            number = int(link[1])
            links[-1][number] = _link(links[-1].get(number, Nvlink(number=number)), link[2])
    if not cards and text.strip() and not _NO_LINKS.search(text):
        raise Unreadable(f"nvidia-smi nvlink: {' '.join(text.split())[:120]!r} names no card")
    return tuple(
        msgspec.structs.replace(card, links=tuple(own.values()) or None)
        for card, own in zip(cards, links, strict=True)
    )


def _link(link: Nvlink, said: str) -> Nvlink:
    new: Mapping[str, object] = {}
    if said in _INACTIVE:
        new = {"active": False}
    elif rate := _RATE.match(said):
        new = {"active": True, "rate": plausible.bit_rate(round(float(rate[1]) * 8e9))}
    elif (counter := _COUNTER.match(said)) and (name := _COUNTERS.get(counter[1])):
        new = {name: int(counter[2])}
    return msgspec.structs.replace(link, **new)


def summed(card: CardLinks, name: str) -> int | None:
    """Return an error counter over a card's links; None when one of them does not tell it."""
    counts: list[int | None] = [getattr(link, name) for link in card.links or ()]
    told = [count for count in counts if count is not None]
    return sum(told) if told and len(told) == len(counts) else None


TOOLS = (Tool("nvidia-smi-nvlink", "nvidia-smi nvlink -s", read_nvlink),)
