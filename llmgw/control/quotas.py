"""Slices of keys' limits, lent to the gateways: what each used, what each is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

import msgspec

from llmgw.base.clock import Clock
from llmgw.control.lending import Standing, lend
from llmgw.model.keys import (
    LIMITS,
    Key,
    QuotaFigures,
    QuotaGrant,
    QuotaReport,
    QuotaSlice,
    QuotaUse,
    equal_share,
)

AWAY = 60.0
"""Seconds for which what a gateway that is gone may still use is lent to nobody else."""
DAY = 86400.0
OVER = 60.0
"""Seconds for which a key counts as over quota after a request of it was refused."""
LACKS = 4.0
"""Seconds for which a gateway that refused a request is lent more than others: some rounds."""
SETTLING = 10.0
"""Seconds in which a new leader hears what gateways hold before it lends."""


GRANT_MOST = 4096
"""Slices in one message: some 300 KB, of the 8 MiB that a message may have."""


def in_parts(grant: QuotaGrant) -> Iterator[QuotaGrant]:
    """Yield a grant in messages that the link carries; each can be taken by itself."""
    for begin in range(0, max(1, len(grant.slices)), GRANT_MOST):
        yield msgspec.structs.replace(grant, slices=grant.slices[begin : begin + GRANT_MOST])


@dataclass(slots=True)
class _Told:
    """What one gateway said of one key, and was told of it."""

    use: QuotaUse | None = None
    slice: QuotaFigures | None = None
    more: bool = False
    short: float = -inf
    """Monotonic seconds at which it said last that it lacks some."""
    heard: bool = False
    """It was told on this stream."""


@dataclass(slots=True)
class _Gateway:
    """One gateway that keeps to slices."""

    boot: str | None = None
    keys: dict[str, _Told] = field(default_factory=dict)
    left: float | None = None
    """Monotonic seconds since when it is gone; None: it is connected."""
    gateways: int | None = None
    """The number of gateways that it was told; None: nothing on this stream."""
    store_away: bool = False
    """What it was told of the store on this stream."""


@dataclass(frozen=True, slots=True)
class _Day:
    """What a gateway that is gone had used of a key's tokens per day when it spoke last."""

    tokens: int
    since: float


class Quotas:
    """Who was lent what. Nothing of it is stored: a new leader hears it from the gateways.

    Args:
        clock: monotonic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gateways: dict[str, _Gateway] = {}
        self._gone: dict[str, dict[str, _Day]] = {}
        """By key, then by gateway."""
        self._over: dict[str, float] = {}
        self._stirred: set[str] = set()
        """Keys of which something may have to be told; those of all others rest."""
        self._all_stirred = True
        self._lent_by: dict[str, Key] = {}
        """By which limits each key was lent last."""
        self._began = clock.monotonic()

    def forget(self) -> None:
        """Know nothing: this control plane begins to lead."""
        self._gateways.clear()
        self._gone.clear()
        self._over.clear()
        self._all_stirred = True
        self._began = self._clock.monotonic()

    def connected(self, gateway: str, boot: str | None = None) -> None:
        """Note a stream of a gateway that keeps to slices: it is told anew, and tells anew.

        What an earlier start of it held and used in a minute is no more; what it used of a day
        counts on until this one says what it knows of it.

        Args:
            gateway: its id.
            boot: which start of it this is; None: it does not say.
        """
        known = self._gateways.setdefault(gateway, _Gateway())
        if boot != known.boot:
            self._keep_days(gateway, known, self._clock.monotonic())
            known.boot = boot
            known.keys.clear()
        for told in known.keys.values():
            told.heard = False
        self._all_stirred = True
        known.left = known.gateways = None
        known.store_away = False

    def left(self, gateway: str) -> None:
        """Note that a gateway is gone; it may go on with what it has."""
        known = self._gateways.get(gateway)
        if known is not None and known.left is None:
            known.left = self._clock.monotonic()
            self._all_stirred = True

    def take(self, report: QuotaReport) -> None:
        """Apply a gateway's report."""
        known = self._gateways.get(report.gateway)
        if known is None:
            return
        now = self._clock.monotonic()
        for use in report.keys:
            told = known.keys.setdefault(use.key, _Told())
            told.use = use
            self._stirred.add(use.key)
            self._gone.get(use.key, {}).pop(report.gateway, None)
            if use.short:
                told.short = self._over[use.key] = now

    def over(self) -> tuple[str, ...]:
        """Return the keys of which a request was refused within the last minute, by id."""
        now = self._clock.monotonic()
        self._over = {key: at for key, at in self._over.items() if now - at < OVER}
        return tuple(sorted(self._over))

    def used_of_late(self, key: str) -> QuotaFigures | None:
        """Return the same, and zeros for a key that rests; None: not known.

        Gateways speak of keys that are used. Of which none speaks, while all that there are are
        connected and had the time to, nothing was used in any window.
        """
        found = self.used(key)
        every = self._gateways.values()
        new = self._clock.monotonic() - self._began < SETTLING
        if found is None and every and not new and all(one.left is None for one in every):
            return QuotaFigures(**dict.fromkeys(LIMITS, 0))
        return found

    def used(self, key: str) -> QuotaFigures | None:
        """Return what a key used over all gateways; None: no gateway has said anything of it."""
        uses = [one.keys[key].use for one in self._gateways.values() if key in one.keys]
        said = [use.used for use in uses if use is not None]
        if not said:
            return None
        sums = {name: [getattr(one, name) for one in said] for name in LIMITS}
        return QuotaFigures(
            **{
                name: sum(figure or 0 for figure in figures)
                for name, figures in sums.items()
                if any(figure is not None for figure in figures)
            }
        )

    def grants(self, keys: Mapping[str, Key], *, store_away: bool = False) -> dict[str, QuotaGrant]:
        """Return what each connected gateway has to be told now.

        Args:
            keys: all keys by id.
            store_away: whether a key that is not known may be a new one.
        """
        now = self._clock.monotonic()
        if now - self._began < SETTLING:
            return self._news(store_away)
        self._expire(now)
        gateways = len(self._gateways)
        slices: dict[str, list[QuotaSlice]] = {}
        for key in self._news_of(keys):
            for gateway, told in self._lend(key, gateways):
                slices.setdefault(gateway, []).append(told)
        grants = {}
        for name, one in self._gateways.items():
            news = one.gateways != gateways or one.store_away != store_away
            if one.left is None and (name in slices or news):
                one.gateways, one.store_away = gateways, store_away
                told_now = tuple(slices.get(name, ()))
                grants[name] = QuotaGrant(gateways=gateways, slices=told_now, store_away=store_away)
        self._drop(keys)
        return grants

    def _news_of(self, keys: Mapping[str, Key]) -> list[Key]:
        """Return the keys, by id, that anything has changed about since they were lent last.

        What a key's gateways are told follows from what they said, what they were told, who they
        are and the key's limits: as long as none of it changes, all of it stands.
        """
        every = {key for one in self._gateways.values() for key in one.keys}
        known = {key_id: keys[key_id] for key_id in sorted(every) if key_id in keys}
        stirred, everything = self._stirred, self._all_stirred
        before, self._lent_by = self._lent_by, known
        self._stirred, self._all_stirred = set(), False
        if everything:
            return list(known.values())
        return [
            key
            for key_id, key in known.items()
            if key_id in stirred or before.get(key_id) is not key
        ]

    def _news(self, store_away: bool) -> dict[str, QuotaGrant]:
        """Return what gateways are told while nothing is lent yet."""
        told = {}
        for name, one in self._gateways.items():
            if one.left is None and one.store_away != store_away:
                one.store_away = store_away
                told[name] = QuotaGrant(gateways=0, store_away=store_away)
        return told

    def _expire(self, now: float) -> None:
        """Lend again what gateways had that are gone for long, but not what they used of a day."""
        for name, one in list(self._gateways.items()):
            if one.left is None or now - one.left < AWAY:
                continue
            del self._gateways[name]
            self._all_stirred = True
            self._keep_days(name, one, one.left)
        for key_id, days in list(self._gone.items()):
            for gateway in [name for name, day in days.items() if now - day.since >= DAY]:
                del days[gateway]
                self._stirred.add(key_id)
            if not days:
                del self._gone[key_id]

    def _keep_days(self, name: str, one: _Gateway, since: float) -> None:
        """Let what a gateway that is gone used of a day count on."""
        for key, told in one.keys.items():
            used = None if told.use is None else told.use.used.tokens_per_day
            if used:
                self._gone.setdefault(key, {})[name] = _Day(used, since)

    def _lend(self, key: Key, gateways: int) -> list[tuple[str, QuotaSlice]]:
        """Return the slices of a key that have changed."""
        names = list(self._gateways)
        before = [self._gateways[name].keys.get(key.id) or _Told() for name in names]
        figures: list[dict[str, int]] = [{} for _ in names]
        more = True
        for limit in LIMITS:
            most = self._limit(key, limit)
            if most is not None:
                standings = [
                    self._standing(name, told, limit, equal_share(most, gateways))
                    for name, told in zip(names, before, strict=True)
                ]
                for mine, lent in zip(figures, lend(most, standings), strict=True):
                    mine[limit] = lent
                more = more and sum(one.used for one in standings) < most
        idle = not any(self._is_used(told) for told in before)
        changed = []
        for name, told, mine in zip(names, before, figures, strict=True):
            lent_now = None if idle else QuotaFigures(**mine)
            known = told.heard and (told.slice, told.more) == (lent_now, more)
            if self._gateways[name].left is None and not known:
                told.slice, told.more, told.heard = lent_now, more, True
                self._gateways[name].keys[key.id] = told
                changed.append((name, QuotaSlice(key=key.id, slice=lent_now, more=more)))
        if changed or any(self._lacks(told) for told in before):
            self._stirred.add(key.id)
        return changed

    def _limit(self, key: Key, limit: str) -> int | None:
        most: int | None = getattr(key, limit)
        if most is None or limit != "tokens_per_day":
            return most
        return max(0, most - sum(day.tokens for day in self._gone.get(key.id, {}).values()))

    def _standing(self, name: str, told: _Told, limit: str, share: int) -> Standing:
        use = told.use
        held = None if use is None else getattr(use.held, limit)
        lent = None if told.slice is None else getattr(told.slice, limit)
        held = share if held is None else held
        return Standing(
            told=held if lent is None else lent,
            held=held,
            used=0 if use is None else getattr(use.used, limit) or 0,
            short=self._lacks(told),
            away=self._gateways[name].left is not None,
        )

    def _drop(self, keys: Mapping[str, Key]) -> None:
        """Forget keys that are gone, or idle and kept to equal shares by all."""
        for one in self._gateways.values():
            for key_id, told in list(one.keys.items()):
                idle = not self._is_used(told)
                if key_id not in keys or (idle and told.slice is None):
                    del one.keys[key_id]

    def _lacks(self, told: _Told) -> bool:
        return self._clock.monotonic() - told.short < LACKS

    def _is_used(self, told: _Told) -> bool:
        if self._lacks(told):
            return True
        return told.use is not None and any(getattr(told.use.used, name) for name in LIMITS)
