"""What a card's report means: its health, and why nothing can be placed on it."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from llmgw.model.cause import ASKS_FOR, PAGE_WAITS, ROW_FAILED, ROW_WAITS
from llmgw.model.device import DeviceHealth
from llmgw.model.record import Record
from llmgw_agent.parse.gpu_report import GpuReport, MemoryErrors, RemappedRows, RetiredPages
from llmgw_agent.parse.nvidia_smi_nvlink import CardLinks, summed

_ENOUGH_TO_COMPARE: Final = 3
"""Other cards of one kind that all have links up, for one without any to be called faulty. Bridges
join two cards or four, so a smaller number says nothing.
"""


class LinksUp(Record, frozen=True, kw_only=True):
    """How many NVLinks a card has and how many of them are down."""

    total: int
    down: int | None = None
    """Of those that should be up; None: none should, as where no bridge is fitted."""
    most: int = 0
    """The most that were ever up at once."""


def health(report: GpuReport) -> DeviceHealth:
    """Return what a report says of a card's health; its UUID must be known."""
    errors = report.errors or MemoryErrors()
    rows, pages = report.remapped or RemappedRows(), report.retired or RetiredPages()
    return DeviceHealth(
        uuid=report.uuid or "",
        ecc_corrected_volatile=errors.corrected_volatile,
        ecc_uncorrected_volatile=errors.uncorrected_volatile,
        ecc_corrected_aggregate=errors.corrected_aggregate,
        ecc_uncorrected_aggregate=errors.uncorrected_aggregate,
        remapped_corrected=rows.corrected,
        remapped_uncorrected=rows.uncorrected,
        remap_pending=rows.pending,
        remap_failed=rows.failed,
        retired_corrected=pages.corrected,
        retired_uncorrected=pages.uncorrected,
        retire_pending=pages.pending,
        recovery_action=report.recovery_action,
    )


def with_links(
    health_: DeviceHealth, links: LinksUp | None, errors: CardLinks | None
) -> DeviceHealth:
    """Return a card's health with what its NVLinks are known to say."""
    return msgspec.structs.replace(
        health_,
        nvlinks=None if links is None else links.total,
        nvlinks_down=None if links is None else links.down,
        nvlink_replay_errors=None if errors is None else summed(errors, "replay_errors"),
        nvlink_recovery_errors=None if errors is None else summed(errors, "recovery_errors"),
        nvlink_crc_errors=None if errors is None else summed(errors, "crc_errors"),
    )


def reasons(health_: DeviceHealth) -> tuple[str, ...] | None:
    """Return why nothing can be placed on a card; None when its driver tells nothing of that.

    Uncorrectable errors since the driver was loaded are no reason by themselves: the process that
    met one was ended, its page is no longer given out, and the count stays until the next reset.
    If the card can't be used the driver says so: a remapping waits or failed, or it asks for an
    action.
    """
    told = (health_.remap_failed, health_.remap_pending, health_.retire_pending)
    if all(one is None for one in (*told, health_.recovery_action)):
        return None
    asks = ASKS_FOR.get(health_.recovery_action or "")
    found = (
        f"{ROW_FAILED}: replace the card" if health_.remap_failed else None,
        f"{ROW_WAITS}: reset the card" if health_.remap_pending else None,
        f"{PAGE_WAITS}: reset the card" if health_.retire_pending else None,
        asks,
    )
    return tuple(reason for reason in found if reason is not None)


def links_up(cards: Sequence[CardLinks], before: Mapping[str, LinksUp]) -> dict[str, LinksUp]:
    """Return how many links of each card are up, by UUID; a card without NVLink is left out.

    A link that is down is listed as inactive, or not listed at all; of a card on which all are down
    none is listed. So a card has as many links as it ever showed, or as its like in the machine.

    A link to which nothing is fitted is listed as inactive as well. So those are down that were up
    once, or that are up on nearly all of the card's like.

    Args:
        cards: the links as listed now.
        before: what was found last.
    """
    found: dict[str, LinksUp] = {}
    for card in cards:
        if card.uuid is None:
            continue
        own = before.get(card.uuid)
        total = max(_listed(card), _of_its_like(card, cards), 0 if own is None else own.total)
        if total:
            most = max(_active(card), 0 if own is None else own.most)
            expected = max(most, _up_on_its_like(card, cards))
            down = expected - _active(card) if expected else None
            found[card.uuid] = LinksUp(total=total, down=down, most=most)
    return found


def _listed(card: CardLinks) -> int:
    return sum(1 for link in card.links or () if link.active is not None)


def _active(card: CardLinks) -> int:
    return sum(1 for link in card.links or () if link.active)


def _of_its_like(card: CardLinks, cards: Sequence[CardLinks]) -> int:
    others = [_listed(one) for one in cards if one is not card and one.name == card.name]
    if not _listed(card) and (len(others) < _ENOUGH_TO_COMPARE or not all(others)):
        return 0
    return max(others, default=0)


def _up_on_its_like(card: CardLinks, cards: Sequence[CardLinks]) -> int:
    """Return how many links are up on at least three quarters of the other cards of its kind.

    Two pairs of cards may have bridges of different width.
    """
    others = sorted(_active(one) for one in cards if one is not card and one.name == card.name)
    if not others or (not _active(card) and len(others) < _ENOUGH_TO_COMPARE):
        return 0
    return others[len(others) // 4]


def links_down(cards: Sequence[CardLinks], up: Mapping[str, LinksUp]) -> tuple[str, ...]:
    """Return in words which cards have links down."""
    return tuple(
        f"GPU {card.index}: {links.down} of its {links.total} NVLinks are down"
        for card in cards
        if card.uuid is not None and (links := up.get(card.uuid)) is not None and links.down
    )
