"""What is known of driver errors: how often, since when, and whether they are over.

An error that asks for a reset, a reboot or another card keeps everything off its card until that
was done; what shows that it was done is each rule of `XidBook.take` and `XidBook.learn`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC

from llmgw.base.units import ABSENT, show_moment
from llmgw.model.device import Xid
from llmgw.model.record import Record
from llmgw_agent.parse.kernel_log import CardAttached, DriverLoaded, LogEvent, XidEvent
from llmgw_agent.parse.xid_table import (
    FOLLOWED_BY_RECOVERY,
    IGNORE,
    RECOVERY_ACTION_CHANGED,
    REMAPPING,
    RESTART_APPLICATION,
    WHAT_TO_DO,
)
from llmgw_agent.probe.xid_memory import BookKept, CountersKept, FaultKept

MOST_UNLISTED = 64
"""Cards that the driver does not list. Of more, those that were heard of last are kept."""
MOST_AT_FIRST = 1024
"""Cards before it is known which ones the driver lists."""
MOST_CODES = 64
"""Of a card. Of more, those that need somebody are kept."""
MOST_REASONS = 4
MOST_KEPT = 4096
"""Kinds of errors of all cards. A book with more is not kept for the next start."""

_NONE = "none"
_REPORT_TAKES = 30.0
"""Seconds: a report that came so soon after an error may have been begun before it."""
_QUIET = 600.0
"""Seconds without a repetition after which a driver that asks for nothing is believed, of errors
that it does not follow with what it asks for."""
_BURST = 60.0
"""Seconds within which errors after a row that is to be remapped belong to the same fault."""


class CardSigns(Record, frozen=True, kw_only=True):
    """What other readings of a card say that tells whether it was reset. None: nothing."""

    read_at: float
    """Monotonic seconds."""
    since_reset: tuple[int | None, ...] = ()
    """Counters that start anew with the driver or a reset, always in the same order."""
    remap_pending: bool | None = None
    recovery_action: str | None = None


@dataclass(frozen=True, slots=True)
class _Counters:
    """What counters said; `until`: they tell of errors heard before then alone. None: of all."""

    since_reset: tuple[int | None, ...]
    until: float | None = None


@dataclass(slots=True)
class _Fault:
    """One kind of error of one card. Times: `first`, `last` wall-clock, `heard` monotonic."""

    code: int
    order: int
    """Of its last event in the log."""
    heard: float
    count: int = 0
    first: float | None = None
    last: float | None = None
    action: str | None = None
    words: str | None = None
    over: bool = False
    while_loading: bool = False

    @property
    def lasts(self) -> bool:
        """Whether the card needs somebody."""
        return self.action in WHAT_TO_DO and not self.over


class XidBook:
    """The errors of this boot by card (`parse.pci.pci_key`) and code. Bounded.

    Invariant: a card that the driver lists is never left out for one that it does not list, and an
    error that needs somebody never for one that needs nobody.
    """

    def __init__(self) -> None:
        self._cards: dict[str, dict[int, _Fault]] = {}
        """Those that were heard of last at the end."""
        self._listed: frozenset[str] | None = None
        self._cards_left_out = 0
        self._codes_left_out = 0
        self._counters: dict[str, _Counters] = {}
        self._order = 0
        self._loaded = 0
        """Order of the last time that the driver was loaded."""

    @property
    def left_out(self) -> str | None:
        """Return in words what there was no room for; None: nothing."""
        words = []
        if self._cards_left_out:
            words.append(
                f"more than {MOST_UNLISTED} cards that the driver does not list have errors: "
                "those heard of last are told"
            )
        if self._codes_left_out:
            words.append(f"a card has errors of more than {MOST_CODES} kinds: not all are told")
        return "; ".join(words) or None

    def hold(self, listed: Collection[str]) -> None:
        """Note which cards the driver lists now."""
        if self._listed == frozenset(listed):
            return
        self._listed = frozenset(listed)
        self._counters = {pci: told for pci, told in self._counters.items() if pci in listed}
        self._make_room()

    def take(self, event: LogEvent, at: float | None, heard: float) -> None:
        """Note what the log tells.

        Args:
            event: from the log, in its order.
            at: when, in seconds since the epoch; None: the log does not tell.
            heard: monotonic seconds of now.
        """
        self._order += 1
        match event:
            case XidEvent():
                self._count(event, at, heard)
            case DriverLoaded():
                for fault in self._all():
                    # What the driver found while it was being loaded is told before it is.
                    fault.over |= not (fault.while_loading and fault.order > self._loaded)
                self._loaded = self._order
            case CardAttached(pci=pci):
                self._end(pci, self._order)

    def learn(self, pci: str, signs: CardSigns) -> bool:
        """Note what another reading of a card says; return whether faults are over by it.

        That the card was reset is shown by counters that fell, and by a row that no longer waits
        for it. Else the driver is believed that it asks for nothing.
        """
        before = self._counters.get(pci)
        self._counters[pci] = _Counters(signs.since_reset)
        faults = self._cards.get(pci, {}).values()
        open_before = sum(not fault.over for fault in faults)
        if before is not None and _fell(before.since_reset, signs.since_reset):
            until = signs.read_at if before.until is None else min(before.until, signs.read_at)
            for fault in faults:
                fault.over |= fault.heard < until
        if signs.remap_pending is False:
            self._remapped(pci, signs.read_at)
        if signs.recovery_action == _NONE:
            for fault in faults:
                followed = fault.code in FOLLOWED_BY_RECOVERY
                wait = _REPORT_TAKES if followed else _QUIET
                fault.over |= signs.read_at - fault.heard >= wait
        return sum(not fault.over for fault in faults) < open_before

    def kept(self) -> BookKept | None:
        """Return what is known, for the next start; None: too much to be kept.

        Counters are kept of cards alone on which something lasts: they change all the time.
        """
        if sum(map(len, self._cards.values())) > MOST_KEPT:
            return None
        cards = self._cards.items()
        return BookKept(
            loaded=self._loaded if self._cards else 0,
            faults=tuple(_kept(pci, fault) for pci, all_ in cards for fault in all_.values()),
            counters=tuple(
                CountersKept(pci=pci, since_reset=self._counters[pci].since_reset)
                for pci in self.lasting()
                if pci in self._counters
            ),
        )

    def restore(self, kept: BookKept, now: float) -> None:
        """Take what an earlier start knew, before anything is taken or learnt.

        A counter that fell since then says nothing of an error that is heard of only now: it may
        have come after the reset.

        Args:
            kept: from `kept`, of this boot.
            now: monotonic seconds.
        """
        for one in kept.faults:
            heard = min(one.heard, now)
            self._cards.setdefault(one.pci, {})[one.code] = _Fault(
                code=one.code,
                order=one.order,
                heard=heard,
                count=one.count,
                first=one.first,
                last=one.last,
                action=one.action,
                words=one.words,
                over=one.over,
                while_loading=one.while_loading,
            )
        self._loaded = kept.loaded
        self._order = max((kept.loaded, *(one.order for one in kept.faults)))
        self._counters = {one.pci: _Counters(one.since_reset, until=now) for one in kept.counters}
        self._make_room()

    def xids(self, pci: str) -> tuple[Xid, ...]:
        """Return a card's errors by code; empty when it has none."""
        return tuple(
            Xid(
                code=fault.code,
                count=fault.count,
                last_seen=fault.last,
                action=fault.action,
                words=fault.words,
                cleared=fault.over or fault.action in {IGNORE, RESTART_APPLICATION},
            )
            for _, fault in sorted(self._cards.get(pci, {}).items())
        )

    def reasons(self, pci: str) -> tuple[str, ...]:
        """Return why nothing may be placed on a card, what was seen last first."""
        lasting = [fault for fault in self._cards.get(pci, {}).values() if fault.lasts]
        lasting.sort(key=lambda fault: -fault.order)
        words = [_reason(fault) for fault in lasting[:MOST_REASONS]]
        more = len(lasting) - MOST_REASONS
        return (*words, f"and {more} more kinds of XID") if more > 0 else tuple(words)

    def lasting(self) -> tuple[str, ...]:
        """Return the cards that need somebody, by address."""
        return tuple(
            pci
            for pci, faults in sorted(self._cards.items())
            if any(fault.lasts for fault in faults.values())
        )

    def _count(self, event: XidEvent, at: float | None, heard: float) -> None:
        faults = self._cards[event.pci] = self._cards.pop(event.pci, {})
        fault = faults.get(event.code)
        if fault is None:
            fault = faults[event.code] = _Fault(event.code, self._order, heard, first=at)
        if fault.over or not fault.lasts:
            fault.first = at
        fault.count, fault.last = fault.count + 1, at
        fault.order, fault.heard, fault.over = self._order, heard, False
        fault.action, fault.words = event.action, event.words
        fault.while_loading = event.while_loading
        if event.code == RECOVERY_ACTION_CHANGED and event.action == IGNORE:
            self._end(event.pci, self._order)
        self._drop_a_kind(faults)
        self._make_room()

    def _drop_a_kind(self, faults: dict[int, _Fault]) -> None:
        """Keep a card's kinds of errors within the bound; of two alike the older one goes."""
        if len(faults) > MOST_CODES:
            del faults[min(faults, key=lambda code: (faults[code].lasts, faults[code].order))]
            self._codes_left_out += 1

    def _make_room(self) -> None:
        """Keep the cards that nobody lists within the bound."""
        listed = frozenset[str]() if self._listed is None else self._listed
        most = MOST_AT_FIRST if self._listed is None else MOST_UNLISTED
        if len(self._cards) <= most:
            return
        unlisted = [pci for pci in self._cards if pci not in listed]
        for pci in unlisted[: max(0, len(unlisted) - most)]:
            del self._cards[pci]
            self._cards_left_out += 1

    def _remapped(self, pci: str, read_at: float) -> None:
        """End what a row that waited for a reset tells of: it waits no longer."""
        row = self._cards.get(pci, {}).get(REMAPPING)
        if row is None or row.over or read_at - row.heard < _REPORT_TAKES:
            return
        for fault in self._cards[pci].values():
            fault.over |= fault.order <= row.order or _near(row.last, fault.last)

    def _end(self, pci: str, order: int) -> None:
        for fault in self._cards.get(pci, {}).values():
            fault.over |= fault.order <= order

    def _all(self) -> Iterator[_Fault]:
        for faults in self._cards.values():
            yield from faults.values()


def _kept(pci: str, fault: _Fault) -> FaultKept:
    return FaultKept(
        pci=pci,
        code=fault.code,
        order=fault.order,
        heard=fault.heard,
        count=fault.count,
        first=fault.first,
        last=fault.last,
        action=fault.action,
        words=fault.words,
        over=fault.over,
        while_loading=fault.while_loading,
    )


def _near(row: float | None, fault: float | None) -> bool:
    return row is not None and fault is not None and fault - row <= _BURST


def _fell(before: tuple[int | None, ...], now: tuple[int | None, ...]) -> bool:
    pairs = zip(before, now, strict=False)
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _reason(fault: _Fault) -> str:
    name = f"XID {fault.code}" + (f" ({fault.words})" if fault.words else "")
    first = show_moment(fault.first, "%Y-%m-%d %H:%M", UTC)
    if first != ABSENT:
        name += f" at {first} UTC"
    return f"{name}: {WHAT_TO_DO[fault.action or '']}"
