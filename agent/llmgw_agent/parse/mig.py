"""MIG: cards that are cut into instances, each a device of its own."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from llmgw_agent.parse.cards import Card, CardsSeen, Instance

NOTHING_CARVED = "MIG mode is on and no instance is carved (nvidia-smi mig -cgi … -C)"
NOT_READ = "MIG mode is on and its instances can't be read"

_PROFILE = re.compile(r"\bMIG\s+(\d[\w.+-]{2,30})\Z", re.ASCII)
_FIRST, _PER_CARD = 1000, 100
_PROFILE_SIZE = re.compile(r"\.(\d{1,4})gb", re.ASCII)
_OF_PROFILE = 0.7, 1.3
"""Least and most of the GiB that a profile names: `1g.20gb` has 19.5, and the next is half or
double of it."""
_OLD_UUID = re.compile(r"/(\d{1,3})/(\d{1,3})\Z", re.ASCII)
"""Ids of GPU and compute instance at the end of a UUID of drivers before 470: `MIG-GPU-…/3/0`."""


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
    seen: CardsSeen,
    report: CardsSeen | None,
    listed: CardsSeen | None,
    before: CardsSeen | None = None,
) -> CardsSeen:
    """Return the cards, those in MIG mode with their instances.

    Invariant: an instance has a UUID only where it is certain that it is this one's. A card can be
    carved anew at any time, and another instance then stands in the same place.

    Args:
        seen: the cards.
        report: `nvidia-smi -q -x`, which tells ids, memory and processes; None: it failed.
        listed: `nvidia-smi -L`, which tells UUIDs and profiles; None: it failed or was not asked.
        before: what this returned when it last had a list. Its UUIDs count where the report tells
            of the very same instances.
    """
    reported, named, known = _by_uuid(report), _by_uuid(listed), _by_uuid(before)
    return msgspec.structs.replace(
        seen,
        cards=tuple(
            _with_instances(
                card, reported.get(card.uuid), named.get(card.uuid), known.get(card.uuid)
            )
            if card.mig
            else card
            for card in seen.cards
        ),
    )


def contradictions(
    seen: CardsSeen, report: CardsSeen | None, listed: CardsSeen | None
) -> tuple[str, ...]:
    """Return in words for which cards in MIG mode report and list tell of different instances."""
    reported, named = _by_uuid(report), _by_uuid(listed)
    return tuple(
        f"GPU {card.index}: nvidia-smi -L and -q -x tell of different instances"
        for card in seen.cards
        if card.mig and card.uuid in reported and card.uuid in named
        if (measured := reported[card.uuid].instances) is not None
        and not _agree(measured, named[card.uuid].instances or ())
    )


def _by_uuid(seen: CardsSeen | None) -> dict[str | None, Card]:
    return {card.uuid: card for card in (seen.cards if seen else ()) if card.uuid is not None}


def _with_instances(
    card: Card, reported: Card | None, named: Card | None, known: Card | None
) -> Card:
    measured = None if reported is None else reported.instances
    listed = None if named is None else named.instances or ()
    remembered = (known.instances if known else None) or ()
    if measured is None:
        # A list alone tells for certain which instances there are.
        found = _detailed(listed, remembered) if listed else None
    elif listed is not None:
        found = _named(measured, listed) if _agree(measured, listed) else measured
    else:
        found = _named(measured, remembered) if _same(measured, remembered) else measured
    return msgspec.structs.replace(
        card,
        instances=found,
        processes=card.processes if reported is None else reported.processes,
    )


def _named(measured: Iterable[Instance], named: Iterable[Instance]) -> tuple[Instance, ...]:
    """Return measured instances with the names of those in the same places."""
    names = {one.index: one for one in named}
    return tuple(
        msgspec.structs.replace(one, uuid=names[one.index].uuid, profile=names[one.index].profile)
        for one in measured
    )


def _detailed(listed: Iterable[Instance], known: Iterable[Instance]) -> tuple[Instance, ...]:
    """Return listed instances with what was known of the same ones, by UUID, but their use."""
    before = {(one.uuid, one.index): one for one in known}
    return tuple(
        msgspec.structs.replace(
            before.get((one.uuid, one.index), one), memory_used=None, processes=None
        )
        for one in listed
    )


def _agree(measured: Sequence[Instance], listed: Sequence[Instance]) -> bool:
    """Say whether a report and a list can be of one carving: places, ids and memory."""
    names = {one.index: one for one in listed}
    places = {one.index for one in measured}
    return (
        places == names.keys()
        and len(measured) == len(listed) == len(places)
        and all(_can_be(one, names[one.index]) for one in measured)
    )


def _can_be(measured: Instance, listed: Instance) -> bool:
    ids = _OLD_UUID.search(listed.uuid or "")
    if ids is not None and (measured.gpu_instance, measured.compute_instance) != (
        int(ids[1]),
        int(ids[2]),
    ):
        return False
    size = _PROFILE_SIZE.search(listed.profile or "")
    if size is None or measured.memory_total is None:
        return True
    least, most = _OF_PROFILE
    return least <= measured.memory_total / (int(size[1]) << 30) <= most


def _same(measured: Sequence[Instance], before: Sequence[Instance]) -> bool:
    """Say whether these are the instances of an earlier report."""
    now, then = _carving(measured), _carving(before)
    return now == then and all(None not in one for one in now)


def _carving(instances: Iterable[Instance]) -> list[tuple[int | None, ...]]:
    return [
        (one.index, one.gpu_instance, one.compute_instance, one.memory_total) for one in instances
    ]
