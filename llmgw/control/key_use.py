"""When keys were used last, and how often they were refused, as far as gateways told since then.

Nothing of it is stored: a new leader begins anew, and the hours of the store say the rest.
"""

from collections.abc import Iterable

from llmgw.base.clock import Clock
from llmgw.model.keys import QuotaReport, UsageReport, UsageRow

KEYS_MOST = 1 << 16
"""Keys that are remembered; of more, the ones that were not used for longest are forgotten."""
FRESH = 10.0
"""Seconds for which what the store said of the last day is not asked for again."""
DAY, HOUR = 86400.0, 3600.0


class KeyUses:
    """What was heard of keys lately.

    Args:
        clock: wall-clock seconds of a use.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used: dict[str, float] = {}
        self._refused: dict[str, dict[str, int]] = {}
        """By key and gateway: refusals since the start of that gateway, or of this leader."""
        self._past: dict[str, int] = {}
        """Refusals of gateways that started anew meanwhile, by key."""
        self._refused_at: dict[str, float] = {}
        self._rows: tuple[UsageRow, ...] = ()
        self._rows_at = float("-inf")

    def forget(self) -> None:
        """Know nothing: another leads, or this one begins to."""
        for known in (self._used, self._refused, self._past, self._refused_at):
            known.clear()
        self._rows_at = float("-inf")

    def used(self, report: UsageReport) -> None:
        """Note that the keys of a report were used just now: it names those that changed."""
        now = self._clock.now()
        for row in report.totals:
            self._used.pop(row.key, None)
            self._used[row.key] = now
        while len(self._used) > KEYS_MOST:
            self._used.pop(next(iter(self._used)))

    def told(self, report: QuotaReport) -> None:
        """Take what a gateway refused."""
        for use in report.keys:
            if use.refused is None:
                continue
            gateways = self._refused.pop(use.key, {})
            self._refused[use.key] = gateways
            before = gateways.get(report.gateway)
            if before is not None and use.refused < before:  # the gateway started anew
                self._past[use.key] = self._past.get(use.key, 0) + before
            if use.short or (before is not None and use.refused != before):
                self._refused_at[use.key] = self._clock.now()
            gateways[report.gateway] = use.refused
        while len(self._refused) > KEYS_MOST:
            self._refused.pop(next(iter(self._refused)))

    def last_used(self, key: str) -> float | None:
        """Return when a key was used last, in seconds since the epoch; None: not lately."""
        return self._used.get(key)

    def refused(self, key: str) -> tuple[int, float | None] | None:
        """Return how often a key was refused for its limits, and when last; None: nobody told."""
        known = self._refused.get(key)
        if known is None:
            return None
        return sum(known.values()) + self._past.get(key, 0), self._refused_at.get(key)

    def fresh_rows(self) -> tuple[UsageRow, ...] | None:
        """Return what the store said a moment ago of the last day; None: ask it again."""
        is_fresh = self._clock.monotonic() - self._rows_at < FRESH
        return self._rows if is_fresh else None

    def keep_rows(self, rows: Iterable[UsageRow]) -> None:
        """Keep what the store said, for others who ask soon."""
        self._rows, self._rows_at = tuple(rows), self._clock.monotonic()
