"""What keys may use at this gateway: the parent's side of their limits.

The leader lends each gateway a slice of each key's limits. Until it does, and again when the key is
idle, a gateway keeps to its equal share; one that no leader ever spoke to keeps to the whole. While
the control plane is away the last slices stay in force, over a restart too.
"""

from collections.abc import Mapping
from math import inf

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.gateway.admission.window import (
    DAY,
    MINUTE,
    Window,
    advance,
    fill,
    floor,
    resume,
    since_begins,
)
from llmgw.gateway.key_cells import (
    CONCURRENT_AT,
    LIMITS,
    MORE_AT,
    NONE,
    REQUESTS,
    RUNNING,
    SHORT,
    TOKENS,
    TOKENS_PER_DAY,
    KeyCells,
    Limit,
)
from llmgw.gateway.mapped import KEYS
from llmgw.gateway.quota_book import KeptQuotas
from llmgw.model.keys import LIMITS as NAMES
from llmgw.model.keys import Key, QuotaFigures, QuotaGrant, QuotaReport, QuotaUse, equal_share

log = get(__name__)

OVER = 60.0
"""Seconds for which a key counts as over quota after a request of it was refused."""
REPORT_MOST = 1024
"""Keys in one report: the leader reads so many in about 50 ms, and all at once in a second."""


class _Limited:
    """One key that has limits."""

    __slots__ = ("before", "column", "key", "refused", "shorts", "told", "touched")

    def __init__(self, key: Key, column: int) -> None:
        self.key = key
        self.column = column
        self.before: tuple[int, int, int] = (0, 0, 0)
        """Requests, tokens and refusals at the last look."""
        self.touched = -inf
        """Monotonic seconds of the last look at which something had changed."""
        self.shorts = 0
        """Refusals when they were last told of."""
        self.refused = 0
        """Refusals since it has its place."""
        self.told: QuotaUse | None = None


class _Moving:
    """The keys whose windows of one kind hold anything; those of all others stand still.

    A key goes when its window has slid past all that it used: each slot then begins with the same
    total, so that nothing has to be written until it is used again.
    """

    def __init__(self, window: Window) -> None:
        self._most = (window.slots + 2) * window.seconds
        self.keys: dict[str, _Limited] = {}

    def drop_idle(self, now: float) -> None:
        """Forget those that have used nothing for longer than the window."""
        for key_id in [k for k, one in self.keys.items() if now - one.touched > self._most]:
            del self.keys[key_id]


class Quotas:
    """The keys with limits: their places in the cells, their windows, the slices lent.

    A look costs what keys did since the last one, and what is within the windows of those that did
    anything; keys that are idle cost nothing.

    Args:
        cells: shared with the workers.
        gateway: this gateway's id.
        clock: monotonic for windows; wall-clock for what survives a restart.
    """

    def __init__(self, cells: KeyCells, gateway: str, clock: Clock) -> None:
        self._cells = cells
        self._gateway = gateway
        self._clock = clock
        self._limited: dict[str, _Limited] = {}
        self._at: dict[int, _Limited] = {}
        """By column."""
        self._columns = 0
        """How many columns, from the first, were ever taken."""
        self._moving = {window: _Moving(window) for window in (MINUTE, DAY)}
        self._touched: dict[str, _Limited] = {}
        """What was used since the last look."""
        self._news: dict[str, _Limited] = {}
        """What may have to be told, that which waits for longest first."""
        self._days: dict[str, tuple[int, ...]] = {}
        """What is kept over a restart, but for keys in `_days_changed`."""
        self._days_changed: set[str] = set()
        self._over: dict[str, float] = {}
        """When a request of a key was refused last."""
        self._free = list(range(KEYS - 1, -1, -1))
        self._left: set[int] = set()
        """Of the free columns those at which requests of the key before may still run."""
        self._gateways = 1
        self._slices: dict[str, QuotaFigures] = {}
        self._more: set[str] = set()
        self._kept: KeptQuotas | None = None
        self._full = False
        self._lends = False
        for limit in LIMITS:
            cells.begin_slot(limit, limit.window.slot(clock.monotonic()))

    def columns(self, keys: tuple[Key, ...]) -> dict[str, int]:
        """Return where the limits of those of the keys lie that have any."""
        return {key.id: self._limited[key.id].column for key in keys if key.id in self._limited}

    def keep(self, keys: Mapping[str, Key]) -> None:
        """Take the keys of a new table."""
        for key_id in [one for one in self._limited if not _is_limited(keys.get(one))]:
            self._forget(key_id)
        for key in keys.values():
            known = self._limited.get(key.id)
            if known is None and _is_limited(key):
                self._place(key)
            elif known is not None and known.key != key:
                known.key = key
                self._write(known)

    def grant(self, grant: QuotaGrant) -> None:
        """Keep to what the leader lends."""
        self._lends = True
        changed = {one.key for one in grant.slices}
        for one in grant.slices:
            if one.slice is None:
                self._slices.pop(one.key, None)
            else:
                self._slices[one.key] = one.slice
            (self._more.add if one.more else self._more.discard)(one.key)
        if grant.gateways and grant.gateways != self._gateways:
            self._gateways = grant.gateways
            changed = set(self._limited)
        for key_id in changed & self._limited.keys():
            self._write(self._limited[key_id])

    def stream_began(self) -> None:
        """Tell everything again, once the leader there has said that it lends."""
        self._lends = False
        for one in self._limited.values():
            one.told = None
        self._news = dict(self._limited)

    def look(self) -> None:
        """Take what was used since the last look, and let the windows slide to now."""
        now = self._clock.monotonic()
        self._see(now)
        begun = [(limit, self._cells.newest(limit), limit.window.slot(now)) for limit in LIMITS]
        for limit, newest, slot in begun:
            if slot > newest:
                self._slide_all(limit, newest, slot)
        for limit, _, slot in begun:
            self._cells.begin_slot(limit, slot)
        for one in self._touched.values():
            one.before = self._totals(one.column)
        self._touched.clear()
        for moving in self._moving.values():
            moving.drop_idle(now)

    def report(self) -> QuotaReport | None:
        """Return what changed since the last report; None: nothing, or nobody lends.

        Of more than `REPORT_MOST` keys those that wait for longest; the next report has more.
        """
        if not self._lends:
            return None
        self._see(self._clock.monotonic())
        uses: list[QuotaUse] = []
        while self._news and len(uses) < REPORT_MOST:
            key_id = next(iter(self._news))
            one = self._news.pop(key_id)
            use = self._use(one)
            idle = not use.short and not any(msgspec.structs.astuple(use.used))
            if use != one.told and not (one.told is None and idle and use.key not in self._slices):
                uses.append(use)
                one.told = msgspec.structs.replace(use, short=False)
        return QuotaReport(gateway=self._gateway, keys=tuple(uses)) if uses else None

    def over(self) -> int:
        """Return of how many keys a request was refused for a limit within the last minute."""
        now = self._clock.monotonic()
        self._over = {key: at for key, at in self._over.items() if now - at < OVER}
        return len(self._over)

    def worker_ended(self, row: int) -> None:
        """Note that nothing runs at a worker that died."""
        for column in (*(one.column for one in self._limited.values()), *self._left):
            self._cells.none_runs(row, column)

    def kept(self) -> KeptQuotas:
        """Return what the next start goes on from."""
        for key_id in self._days_changed & self._limited.keys():
            used = self._day_of(self._limited[key_id])
            if any(used):
                self._days[key_id] = used
            else:
                self._days.pop(key_id, None)
        self._days_changed.clear()
        return KeptQuotas(
            at=self._clock.now(),
            gateways=self._gateways,
            slices=dict(self._slices),
            days=dict(self._days),
        )

    def restore(self, kept: KeptQuotas) -> None:
        """Go on from what an earlier start kept; before any key is taken."""
        self._kept = kept
        self._gateways = max(1, kept.gateways)
        self._slices = dict(kept.slices)

    def _see(self, now: float) -> None:
        """Note which keys were used since the last time."""
        for column in self._cells.changed(self._columns):
            if column in self._at:
                self._touch(self._at[column], now)

    def _touch(self, one: _Limited, now: float) -> None:
        one.touched = now
        key_id = one.key.id
        self._touched[key_id] = one
        for moving in self._moving.values():
            moving.keys[key_id] = one
        self._news[key_id] = one
        self._days_changed.add(key_id)
        if self._cells.total(SHORT, one.column) > one.before[2]:
            self._over[key_id] = now

    def _forget(self, key_id: str) -> None:
        one = self._limited.pop(key_id)
        del self._at[one.column]
        for moving in self._moving.values():
            moving.keys.pop(key_id, None)
        for known in (self._touched, self._news, self._days, self._over, self._slices):
            known.pop(key_id, None)
        self._days_changed.discard(key_id)
        self._free.insert(0, one.column)
        self._left.add(one.column)

    def _place(self, key: Key) -> None:
        column = self._next()
        if column is None:
            return
        one = self._limited[key.id] = self._at[column] = _Limited(key, column)
        self._columns = max(self._columns, column + 1)
        one.before = self._totals(column)
        one.shorts = self._cells.total(SHORT, column)
        for limit in LIMITS:
            ring = self._cells.ring(limit, column)
            fill(limit.window, ring, self._cells.total(limit.count, column))
        self._resume_day(one)
        self._write(one)

    def _next(self) -> int | None:
        """Return a column at which nothing runs any more; None: there is none."""
        for at in range(len(self._free) - 1, -1, -1):
            if not self._cells.total(RUNNING, self._free[at]):
                self._left.discard(self._free[at])
                return self._free.pop(at)
        if not self._full:
            self._full = True
            log.error("more keys have limits than are told apart: theirs are not kept", most=KEYS)
        return None

    def _resume_day(self, one: _Limited) -> None:
        used = self._kept.days.get(one.key.id) if self._kept is not None else None
        if used is None or self._kept is None or self._cells.total(TOKENS, one.column):
            return
        window = TOKENS_PER_DAY.window
        passed = max(0, int((self._clock.now() - self._kept.at) // window.seconds))
        ring = self._cells.ring(TOKENS_PER_DAY, one.column)
        resume(window, ring, self._cells.newest(TOKENS_PER_DAY), used, passed)
        self._touch(one, self._clock.monotonic())

    def _slide_all(self, limit: Limit, newest: int, slot: int) -> None:
        for key_id, one in self._moving[limit.window].keys.items():
            self._slide(one, limit, newest, slot)
            self._news[key_id] = one
            if limit.window is DAY:
                self._days_changed.add(key_id)

    def _slide(self, one: _Limited, limit: Limit, newest: int, slot: int) -> None:
        ring = self._cells.ring(limit, one.column)
        before = one.before[0 if limit.count == REQUESTS else 1]
        advance(limit.window, ring, newest, slot, before)
        at = self._cells.block(one.column) + limit.at
        self._cells.blocks[at + 1] = floor(limit.window, ring, slot)

    def _write(self, one: _Limited) -> None:
        """Write what a key may use where the workers see it."""
        held, blocks = self._held(one.key), self._cells.blocks
        at = self._cells.block(one.column)
        for limit in LIMITS:
            most = getattr(held, limit.name)
            newest = self._cells.newest(limit)
            begin = floor(limit.window, self._cells.ring(limit, one.column), newest)
            blocks[at + limit.at + 1] = begin
            blocks[at + limit.at] = NONE if most is None else most
        blocks[at + CONCURRENT_AT] = NONE if held.concurrent is None else held.concurrent
        blocks[at + MORE_AT] = one.key.id in self._more
        self._news[one.key.id] = one
        self._days_changed.add(one.key.id)

    def _held(self, key: Key) -> QuotaFigures:
        lent = self._slices.get(key.id)
        figures: dict[str, int | None] = {}
        for name in NAMES:
            limit = getattr(key, name)
            if limit is not None:
                mine = getattr(lent, name) if lent is not None else None
                share = equal_share(limit, self._gateways)
                figures[name] = min(limit, share if mine is None else mine)
        return QuotaFigures(**figures)

    def _use(self, one: _Limited) -> QuotaUse:
        used = {}
        for limit in LIMITS:
            if getattr(one.key, limit.name) is not None:
                ring, newest = self._cells.ring(limit, one.column), self._cells.newest(limit)
                total = self._cells.total(limit.count, one.column)
                used[limit.name] = max(0, total - floor(limit.window, ring, newest))
        if one.key.concurrent is not None:
            used["concurrent"] = max(0, self._cells.total(RUNNING, one.column))
        shorts = self._cells.total(SHORT, one.column)
        short = shorts > one.shorts
        one.refused += shorts - one.shorts
        one.shorts = shorts
        return QuotaUse(
            key=one.key.id,
            used=QuotaFigures(**used),
            held=self._held(one.key),
            short=short,
            refused=one.refused,
        )

    def _day_of(self, one: _Limited) -> tuple[int, ...]:
        if one.key.tokens_per_day is None:
            return ()
        ring, newest = (
            self._cells.ring(TOKENS_PER_DAY, one.column),
            self._cells.newest(TOKENS_PER_DAY),
        )
        total = self._cells.total(TOKENS, one.column)
        return tuple(since_begins(DAY, ring, newest, total))

    def _totals(self, column: int) -> tuple[int, int, int]:
        requests, tokens = self._cells.total(REQUESTS, column), self._cells.total(TOKENS, column)
        return requests, tokens, self._cells.total(SHORT, column)


def _is_limited(key: Key | None) -> bool:
    return key is not None and any(getattr(key, name) is not None for name in NAMES)
