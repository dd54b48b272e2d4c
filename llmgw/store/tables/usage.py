"""What keys used, by hour; how totals become it is in `rules.usage`."""

from sqlite_utils import Database

from llmgw.model.keys import UsageReport, UsageRow, UsageTotals
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
from llmgw.store.tables.rows import change, every, first

_COUNTS = ", ".join(FIELDS)
_MARKS = ", ".join("?" for _ in FIELDS)
_SET = ", ".join(f"{name} = excluded.{name}" for name in FIELDS)
_ADD = ", ".join(f"{name} = usage_hours.{name} + excluded.{name}" for name in FIELDS)


def apply(db: Database, report: UsageReport, at: float) -> bool:
    """Add what a report says beyond the last one of its worker; False: it was applied before."""
    worker = (report.gateway, report.boot, report.worker)
    last = first(
        db,
        "SELECT sequence FROM usage_reports WHERE gateway = ? AND boot = ? AND worker = ?",
        worker,
    )
    if not is_newer(report, None if last is None else last["sequence"]):
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
    for over in begun_anew(report, None if last is None else last["sequence"]):
        change(
            db,
            "DELETE FROM usage_totals"
            " WHERE gateway = ? AND boot = ? AND worker = ? AND user_key = ? AND model = ?",
            (*worker, over.key, over.model),
        )
    for totals in report.totals:
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
    before = _before(db, where)
    now = counts(report, totals, before)
    if now == before:
        return
    change(
        db,
        f"INSERT INTO usage_totals (gateway, boot, worker, user_key, model, {_COUNTS})"  # noqa: S608
        f" VALUES (?, ?, ?, ?, ?, {_MARKS})"
        f" ON CONFLICT (gateway, boot, worker, user_key, model) DO UPDATE SET {_SET}",
        (*where, *now),
    )
    change(
        db,
        f"INSERT INTO usage_hours (hour, user_key, model, {_COUNTS})"  # noqa: S608
        f" VALUES (?, ?, ?, {_MARKS}) ON CONFLICT (hour, user_key, model) DO UPDATE SET {_ADD}",
        (at // HOUR * HOUR, totals.key, totals.model, *beyond(now, before)),
    )


def _before(db: Database, where: tuple[str, str, int, str, str]) -> Counts:
    row = first(
        db,
        f"SELECT {_COUNTS} FROM usage_totals"  # noqa: S608
        " WHERE gateway = ? AND boot = ? AND worker = ? AND user_key = ? AND model = ?",
        where,
    )
    return tuple(int(row[name]) for name in FIELDS) if row else NOTHING


def _forget_old_boots(db: Database, report: UsageReport, at: float) -> None:
    """Drop the totals of a gateway's former boots whose journals can't still be on their way."""
    for table in ("usage_totals", "usage_reports"):
        change(
            db,
            f"DELETE FROM {table} WHERE (gateway, boot, worker) IN"  # noqa: S608
            " (SELECT gateway, boot, worker FROM usage_reports"
            "  WHERE gateway = ? AND boot <> ? AND at < ?)",
            (report.gateway, report.boot, at - BOOT_KEPT),
        )
