"""One reading of the cards after the other: no card that was seen is ever silently missing."""

from collections.abc import Iterable

import msgspec

from llmgw_agent.parse.card_devices import name_of
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.plausible import MOST_CARDS

IN_DOUBT = "the card's instances can't be read now, so nobody knows whether this one is still there"

_IDENTITY = ("index", "name", "pci_address", "memory_total", "memory_of_its_own", "mig",
             "instances", "compute_capability", "numa_node")  # fmt: skip
"""What does not change from reading to reading, and is kept where a later one does not tell it."""


def since(before: tuple[Card, ...], seen: CardsSeen) -> CardsSeen:
    """Return a reading in which no card of the last one is silently missing.

    A card that the driver does not answer for keeps the name it had; one that is gone from the
    driver's list stays, with that as its trouble, until another one has its address. What a cut
    answer does not tell stays as it was. Of more than `MOST_CARDS` those that are gone longest are
    left out.
    """
    named = _each_once(_named(card, before) for card in seen.cards)
    there = {card.uuid for card in named}
    taken = {pci_key(card.pci_address) for card in named} - {None}
    gone = [
        card
        for card in before
        if card.uuid is not None
        and card.uuid not in there
        and pci_key(card.pci_address) not in taken
    ]
    if not seen.cut:
        why = seen.warning or "the driver no longer lists the card"
        gone = [_still(card, why) for card in gone]
    return msgspec.structs.replace(seen, cards=(*named, *gone)[:MOST_CARDS])


def _each_once(cards: Iterable[Card]) -> tuple[Card, ...]:
    found: dict[str, Card] = {}
    for card in cards:
        found.setdefault(name_of(card), card)
    return tuple(found.values())


def _named(card: Card, before: tuple[Card, ...]) -> Card:
    same = _same(card, before)
    if same is None:
        return card
    if card.uuid is None:
        return _still(same, card.trouble)
    kept = {name: getattr(same, name) for name in _IDENTITY if getattr(card, name) is None}
    now = msgspec.structs.replace(card, **kept)
    if not now.mig:
        return msgspec.structs.replace(now, instances=None)
    return _in_doubt(now) if card.instances is None else now


def _in_doubt(card: Card) -> Card:
    """Return a card whose instances are not read now: it may have been carved anew."""
    return msgspec.structs.replace(
        card,
        instances=tuple(
            msgspec.structs.replace(one, trouble=IN_DOUBT) for one in card.instances or ()
        )
        or None,
    )


def _same(card: Card, before: tuple[Card, ...]) -> Card | None:
    """Return the card of an earlier reading that it is: by UUID, else address, else number."""
    known = [one for one in before if one.uuid is not None]
    if card.uuid is not None:
        return next((one for one in known if one.uuid == card.uuid), None)
    place = pci_key(card.pci_address)
    if place is not None:
        return next((one for one in known if pci_key(one.pci_address) == place), None)
    if card.index is None:
        return None
    return next((one for one in known if one.index == card.index), None)


def _still(card: Card, trouble: str | None) -> Card:
    """Return a card of which nothing is measured any more."""
    return Card(
        index=card.index,
        uuid=card.uuid,
        name=card.name,
        pci_address=card.pci_address,
        memory_total=card.memory_total,
        memory_of_its_own=card.memory_of_its_own,
        mig=card.mig,
        instances=card.instances,
        compute_capability=card.compute_capability,
        numa_node=card.numa_node,
        trouble=trouble or "the driver does not answer for the card",
    )
