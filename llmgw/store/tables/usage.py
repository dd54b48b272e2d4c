"""What keys used, by hour: the difference of cumulative totals, each applied once.

Invariant: for each (gateway, boot, worker, key, model) the hours hold together exactly what its
last applied report says. A report is applied wholly or not at all.
"""

from sqlite_utils import Database

from llmgw.base.errors import Refused
from llmgw.model.keys import UsageReport, UsageRow, UsageTotals
from llmgw.store.tables.rows import change, every, first

HOUR = 3600.0
_FIELDS = ("requests", "prompt_tokens", "completion_tokens", "cancelled", "estimated", "failed")
_MOST = 1 << 53
"""More than any worker counts, and still exact in every reader's JSON."""
_BOOT_KEPT = 90 * 86400.0
"""How long a former boot of a gateway may still deliver from its journal."""
_COUNTS = ", ".join(_FIELDS)
_MARKS = ", ".join("?" for _ in _FIELDS)
_SET = ", ".join(f"{name} = excluded.{name}" for name in _FIELDS)
_ADD = ", ".join(f"{name} = usage_hours.{name} + excluded.{name}" for name in _FIELDS)


def apply(db: Database, report: UsageReport, at: float) -> bool:
    """Add what a report says beyond the last one of its worker; False: it was applied before."""
    worker = (report.gateway, report.boot, report.worker)
    if not 0 <= report.sequence <= _MOST:
        raise Refused(f"{_name(report)}: {report.sequence} is no sequence number")
    last = first(
        db,
        "SELECT sequence FROM usage_reports WHERE gateway = ? AND boot = ? AND worker = ?",
        worker,
    )
    if last is not None and report.sequence <= last["sequence"]:
        return False
    if last is None:
        _forget_old_boots(db, report, at)
    change(
        db,
        "INSERT INTO usage_reports (gateway, boot, worker, sequence, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (gateway, boot, worker) DO UPDATE"
        " SET sequence = excluded.sequence, at = excluded.at",
        (*worker, report.sequence, at),
    )
    seen: set[tuple[str, str]] = set()
    for totals in report.totals:
        if (totals.key, totals.model) in seen:
            raise Refused(f"{_name(report)}: says key {totals.key} and {totals.model} twice")
        seen.add((totals.key, totals.model))
        _add(db, report, totals, at)
    return True


def between(db: Database, since: float, until: float) -> tuple[UsageRow, ...]:
    """Return the hours that overlap [since, until), by hour, key and model."""
    rows = every(
        db,
        f"SELECT hour, user_key AS key, model, {_COUNTS} FROM usage_hours"  # noqa: S608
        " WHERE hour + ? > ? AND hour < ? ORDER BY hour, user_key, model",
        (HOUR, since, until),
    )
    return tuple(UsageRow(**row) for row in rows)


def _add(db: Database, report: UsageReport, totals: UsageTotals, at: float) -> None:
    where = (report.gateway, report.boot, report.worker, totals.key, totals.model)
    now = tuple(int(getattr(totals, name)) for name in _FIELDS)
    before = _before(db, where)
    _check(report, totals, before, now)
    if now == before:
        return
    change(
        db,
        f"INSERT INTO usage_totals (gateway, boot, worker, user_key, model, {_COUNTS})"  # noqa: S608
        f" VALUES (?, ?, ?, ?, ?, {_MARKS})"
        f" ON CONFLICT (gateway, boot, worker, user_key, model) DO UPDATE SET {_SET}",
        (*where, *now),
    )
    more = tuple(new - old for new, old in zip(now, before, strict=True))
    change(
        db,
        f"INSERT INTO usage_hours (hour, user_key, model, {_COUNTS})"  # noqa: S608
        f" VALUES (?, ?, ?, {_MARKS}) ON CONFLICT (hour, user_key, model) DO UPDATE SET {_ADD}",
        (at // HOUR * HOUR, totals.key, totals.model, *more),
    )


def _before(db: Database, where: tuple[str, str, int, str, str]) -> tuple[int, ...]:
    row = first(
        db,
        f"SELECT {_COUNTS} FROM usage_totals"  # noqa: S608
        " WHERE gateway = ? AND boot = ? AND worker = ? AND user_key = ? AND model = ?",
        where,
    )
    return tuple(int(row[name]) for name in _FIELDS) if row else (0,) * len(_FIELDS)


def _check(
    report: UsageReport, totals: UsageTotals, before: tuple[int, ...], now: tuple[int, ...]
) -> None:
    for name, old, new in zip(_FIELDS, before, now, strict=True):
        if new < old:
            raise Refused(
                f"{_name(report)}: {name} of key {totals.key} and {totals.model} "
                f"fell from {old} to {new}; totals never fall within a boot",
                hint="its journal is damaged or was restored; a restart of the gateway begins anew",
            )
        if new > _MOST:
            raise Refused(f"{_name(report)}: {name} is {new}, which nothing can count to")


def _forget_old_boots(db: Database, report: UsageReport, at: float) -> None:
    """Drop the totals of a gateway's former boots whose journals can't still be on their way."""
    for table in ("usage_totals", "usage_reports"):
        change(
            db,
            f"DELETE FROM {table} WHERE (gateway, boot, worker) IN"  # noqa: S608
            " (SELECT gateway, boot, worker FROM usage_reports"
            "  WHERE gateway = ? AND boot <> ? AND at < ?)",
            (report.gateway, report.boot, at - _BOOT_KEPT),
        )


def _name(report: UsageReport) -> str:
    return f"usage of gateway {report.gateway}, boot {report.boot}, worker {report.worker}"
