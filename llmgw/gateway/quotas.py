"""What keys may use at this gateway: the parent's side of their limits.

The leader lends each gateway a slice of each key's limits. Until it does, and again when the key is
idle, a gateway keeps to its equal share; one that no leader ever spoke to keeps to the whole. While
the control plane is away the last slices stay in force, over a restart too.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.gateway.admission.window import advance, fill, floor, resume, since_begins
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
from llmgw.model.keys import LIMITS as NAMES
from llmgw.model.keys import Key, QuotaFigures, QuotaGrant, QuotaReport, QuotaUse, equal_share
from llmgw.model.record import Record

log = get(__name__)

SAVE_EACH = 10
"""Looks between two writings of what survives a restart."""
REPORT_MOST = 1024
"""Keys in one report: the leader reads so many in about 50 ms, and all at once in a second."""


class KeptQuotas(Record, frozen=True, kw_only=True):
    """What survives a restart of the gateway."""

    at: float
    """Wall-clock seconds."""
    gateways: int
    slices: dict[str, QuotaFigures]
    days: dict[str, tuple[int, ...]]
    """Of each key with tokens per day: what was used since each slot of the day began."""


encode_quotas = msgspec.msgpack.Encoder().encode
decode_quotas = msgspec.msgpack.Decoder(KeptQuotas).decode


class QuotaBook:
    """Keeps on disk what the next start goes on from; a kill costs the last seconds of the day.

    Args:
        quotas: what is kept.
        path: of the file.
        files: the disk.
    """

    def __init__(self, quotas: "Quotas", path: Path, files: Files) -> None:
        self._quotas = quotas
        self._path = path
        self._files = files
        self._looks = 0
        self._written: KeptQuotas | None = None

    def restore(self) -> None:
        """Read what an earlier start kept; a file that can't be read is as none."""
        try:
            self._quotas.restore(decode_quotas(self._files.read(self._path)))
        except NotFound:
            return
        except (msgspec.DecodeError, LlmgwError, OSError) as error:
            log.warning("the kept quotas can't be read", file=str(self._path), why=str(error))

    def save_if_due(self) -> None:
        """Write what changed, each so many calls."""
        self._looks = (self._looks + 1) % SAVE_EACH
        if not self._looks:
            self.save()

    def save(self) -> None:
        """Write what changed; a disk that takes nothing is asked again the next time."""
        kept, written = self._quotas.kept(), self._written
        if written is not None and msgspec.structs.replace(kept, at=written.at) == written:
            return
        try:
            self._files.write(self._path, encode_quotas(kept))
        except OSError as error:
            log.warning("quotas can't be written", file=str(self._path), why=str(error))
            return
        self._written = kept


class _Limited:
    """One key that has limits."""

    __slots__ = ("before", "column", "key", "shorts", "told")

    def __init__(self, key: Key, column: int) -> None:
        self.key = key
        self.column = column
        self.before: tuple[int, int] = (0, 0)
        """Requests and tokens at the last look."""
        self.shorts = 0
        """Refusals when they were last told of."""
        self.told: QuotaUse | None = None


class Quotas:
    """The keys with limits: their places in the cells, their windows, the slices lent.

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
            column = self._limited.pop(key_id).column
            self._free.insert(0, column)
            self._left.add(column)
            self._slices.pop(key_id, None)
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

    def look(self) -> None:
        """Let the windows slide to now."""
        now = self._clock.monotonic()
        begun = [(limit, self._cells.newest(limit), limit.window.slot(now)) for limit in LIMITS]
        for limit, newest, slot in begun:
            if slot > newest:
                for one in self._limited.values():
                    self._slide(one, limit, newest, slot)
        for limit, _, slot in begun:
            self._cells.begin_slot(limit, slot)
        for one in self._limited.values():
            one.before = self._totals(one.column)

    def report(self) -> QuotaReport | None:
        """Return what changed since the last report; None: nothing, or nobody lends.

        Of more than `REPORT_MOST` keys those that were told longest ago; the next report has more.
        """
        if not self._lends:
            return None
        uses: list[QuotaUse] = []
        for key_id, one in list(self._limited.items()):
            if len(uses) == REPORT_MOST:
                break
            use = self._use(one)
            idle = not use.short and not any(msgspec.structs.astuple(use.used))
            if use != one.told and not (one.told is None and idle and use.key not in self._slices):
                uses.append(use)
                self._limited[key_id] = self._limited.pop(key_id)  # behind those not yet told
                one.told = msgspec.structs.replace(use, short=False)
        return QuotaReport(gateway=self._gateway, keys=tuple(uses)) if uses else None

    def worker_ended(self, row: int) -> None:
        """Note that nothing runs at a worker that died."""
        for column in (*(one.column for one in self._limited.values()), *self._left):
            self._cells.none_runs(row, column)

    def kept(self) -> KeptQuotas:
        """Return what the next start goes on from."""
        days = {}
        for key_id, one in self._limited.items():
            if one.key.tokens_per_day is not None:
                ring = self._cells.ring(TOKENS_PER_DAY, one.column)
                newest = self._cells.newest(TOKENS_PER_DAY)
                total = self._cells.total(TOKENS, one.column)
                used = since_begins(TOKENS_PER_DAY.window, ring, newest, total)
                if any(used):
                    days[key_id] = tuple(used)
        return KeptQuotas(
            at=self._clock.now(), gateways=self._gateways, slices=dict(self._slices), days=days
        )

    def restore(self, kept: KeptQuotas) -> None:
        """Go on from what an earlier start kept; before any key is taken."""
        self._kept = kept
        self._gateways = max(1, kept.gateways)
        self._slices = dict(kept.slices)

    def _place(self, key: Key) -> None:
        column = self._next()
        if column is None:
            return
        one = self._limited[key.id] = _Limited(key, column)
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
        short, one.shorts = shorts > one.shorts, shorts
        return QuotaUse(
            key=one.key.id, used=QuotaFigures(**used), held=self._held(one.key), short=short
        )

    def _totals(self, column: int) -> tuple[int, int]:
        return self._cells.total(REQUESTS, column), self._cells.total(TOKENS, column)


def _is_limited(key: Key | None) -> bool:
    return key is not None and any(getattr(key, name) is not None for name in NAMES)
