"""What keys used, by hour."""

from llmgw.model.keys import UsageReport, UsageRow
from llmgw.store.rules.usage import (
    BOOT_KEPT,
    FIELDS,
    HOUR,
    NOTHING,
    Counts,
    begun_anew,
    beyond,
    counts,
    is_newer,
)

Worker = tuple[str, str, int]
"""Gateway, boot, worker."""
Used = tuple[str, str]
"""Key and model."""


class UsageRows:
    """The last report of each worker, and the hours."""

    def __init__(self) -> None:
        self._reports: dict[Worker, tuple[int, float]] = {}
        """Sequence, and when it was applied."""
        self._totals: dict[Worker, dict[Used, Counts]] = {}
        self._hours: dict[tuple[float, str, str], Counts] = {}

    def apply(self, report: UsageReport, at: float) -> bool:
        """Add what a report says beyond its worker's last one; False: it was applied before."""
        worker = (report.gateway, report.boot, report.worker)
        last = self._reports.get(worker)
        if not is_newer(report, None if last is None else last[0]):
            return False
        before = self._totals.get(worker, {})
        over = {
            (one.key, one.model) for one in begun_anew(report, None if last is None else last[0])
        }
        before = {used: said for used, said in before.items() if used not in over}
        now = {
            (one.key, one.model): counts(report, one, before.get((one.key, one.model), NOTHING))
            for one in report.totals
        }
        if last is None:
            self._forget_old_boots(report, at)
        self._reports[worker] = (report.sequence, at)
        self._totals[worker] = before | now
        for used, said in now.items():
            self._add((at // HOUR * HOUR, *used), beyond(said, before.get(used, NOTHING)))
        return True

    def between(self, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return the hours that overlap [since, until), by hour, key and model."""
        return tuple(
            UsageRow(hour=hour, key=key, model=model, **dict(zip(FIELDS, used, strict=True)))
            for (hour, key, model), used in sorted(self._hours.items())
            if hour + HOUR > since and hour < until
        )

    def _add(self, where: tuple[float, str, str], more: Counts) -> None:
        if any(more):
            there = self._hours.get(where, NOTHING)
            self._hours[where] = tuple(old + new for old, new in zip(there, more, strict=True))

    def _forget_old_boots(self, report: UsageReport, at: float) -> None:
        """Drop a gateway's former boots whose journals can't still be on their way."""
        for worker, (_, applied) in list(self._reports.items()):
            gateway, boot, _ = worker
            if gateway == report.gateway and boot != report.boot and applied < at - BOOT_KEPT:
                del self._reports[worker]
                self._totals.pop(worker, None)
