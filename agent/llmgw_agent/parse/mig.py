"""MIG: cards that are cut into instances, each a device of its own."""

import re
from collections.abc import Iterable

import msgspec

from llmgw_agent.parse.cards import Card, CardsSeen, Instance

NOTHING_CARVED = "MIG mode is on and no instance is carved (nvidia-smi mig -cgi … -C)"
NOT_READ = "MIG mode is on and its instances can't be read"

_PROFILE = re.compile(r"\bMIG\s+(\d[\w.+-]{2,30})\Z", re.ASCII)
_FIRST, _PER_CARD = 1000, 100


def profile_of(name: str | None) -> str | None:
    """Return the profile that the name of an instance ends with: `NVIDIA A100 MIG 1g.20gb`."""
    match = _PROFILE.search(name) if name else None
    return None if match is None else match[1]


def instance_number(card: int | None, instance: int | None) -> int | None:
    """Return the number by which an instance is shown as `gpu3/mig1`; None when it has none."""
    if card is None or instance is None or not 0 <= instance < _PER_CARD:
        return None
    return _FIRST + _PER_CARD * card + instance


def instance_class(card_class: str | None, profile: str | None) -> str | None:
    """Return the class that placement counts an instance as; None where a part is not known."""
    if card_class is None or profile is None:
        return None
    return f"{card_class}-mig-{profile}"


def with_instances(
    seen: CardsSeen, report: CardsSeen | None, listed: CardsSeen | None
) -> CardsSeen:
    """Return the cards, those in MIG mode with their instances.

    Args:
        seen: the cards.
        report: `nvidia-smi -q -x`, which tells ids, memory and processes; None: it failed.
        listed: `nvidia-smi -L`, which tells UUIDs and profiles; None: it failed.
    """
    reported, named = _by_uuid(report), _by_uuid(listed)
    return msgspec.structs.replace(
        seen,
        cards=tuple(
            _with_instances(card, reported.get(card.uuid), named.get(card.uuid))
            if card.mig
            else card
            for card in seen.cards
        ),
    )


def _by_uuid(seen: CardsSeen | None) -> dict[str | None, Card]:
    return {card.uuid: card for card in (seen.cards if seen else ()) if card.uuid is not None}


def _with_instances(card: Card, reported: Card | None, named: Card | None) -> Card:
    measured = None if reported is None else reported.instances
    listed = None if named is None else named.instances
    if measured is None and not listed:
        return card
    return msgspec.structs.replace(
        card,
        instances=_both(measured or (), listed or ()),
        processes=card.processes if reported is None else reported.processes,
    )


def _both(measured: Iterable[Instance], named: Iterable[Instance]) -> tuple[Instance, ...]:
    """Return instances that two outputs tell of, by their place on the card."""
    found = {instance.index: instance for instance in measured}
    for instance in named:
        same = found.get(instance.index)
        found[instance.index] = (
            instance
            if same is None
            else msgspec.structs.replace(same, uuid=instance.uuid, profile=instance.profile)
        )
    return tuple(found.values())
