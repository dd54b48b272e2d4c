"""`nvidia-smi -L`: cards and their MIG instances by name and UUID."""

import re

import msgspec

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import Card, CardsSeen, Instance
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.mig import profile_of
from llmgw_agent.parse.nvidia_smi_errors import lost_cards
from llmgw_agent.parse.smi_values import card_uuid, words
from llmgw_agent.parse.tool import Tool

_CARD = re.compile(r"GPU (\d{1,3}): (.*?)(?: \(UUID: ([^()]*)\))?\Z", re.ASCII)
_INSTANCE = re.compile(
    r"\s+(MIG \S+)\s+Device\s+(\d{1,2}): \(UUID: (MIG-[^()\s]+)\)\s*\Z", re.ASCII
)


def read_list(text: str) -> CardsSeen:
    """Return the cards; `instances` is None for one under which none is listed.

    A line that is neither a card nor an instance costs itself.

    Raises:
        Unreadable: no card is listed.
    """
    cards: list[Card] = []
    instances: list[list[Instance]] = []
    for line in lines_of(text):
        card, instance = _CARD.match(line), _INSTANCE.match(line)
        if card is not None:
            cards.append(_card(card))
            instances.append([])
        elif instance is not None and instances:
            instances[-1].append(_instance(instance))
    lost = lost_cards(text)
    if not cards and not lost:
        raise Unreadable(f"nvidia-smi -L: no card in {text[:200]!r}")
    with_theirs = [
        msgspec.structs.replace(card, instances=tuple(found) or None)
        for card, found in zip(cards, instances, strict=True)
    ]
    return CardsSeen(cards=(*with_theirs, *lost))


def _card(match: re.Match[str]) -> Card:
    return Card(index=int(match[1]), name=words(match[2]), uuid=card_uuid(match[3] or ""))


def _instance(match: re.Match[str]) -> Instance:
    return Instance(index=int(match[2]), uuid=match[3], profile=profile_of(match[1]))


TOOLS = (Tool("nvidia-smi-L", "nvidia-smi -L", read_list),)
