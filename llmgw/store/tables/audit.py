"""What people changed, as a chain: each row carries the sha256 of the former one and of itself.

Changing, removing or adding a row breaks the chain from there on; the last row's sha256 is kept
apart, so that cutting off the end shows too. It proves damage and careless hands, not an attacker
who may write the file and computes it all anew.
"""

import hashlib

import msgspec
from sqlite_utils import Database

from llmgw.base.secrets import redact
from llmgw.model.events import AuditEntry
from llmgw.store.tables.about import NO_ROW
from llmgw.store.tables.rows import Row, change, every, first

_COLUMNS = "number, at, actor, action, subject, before, after, former, sha256"


def add(db: Database, entry: AuditEntry) -> None:
    """Append an entry to the chain."""
    head = first(db, "SELECT audit_rows, audit_sha256 FROM store") or {}
    row: Row = {
        "number": head.get("audit_rows", 0) + 1,
        "at": entry.at,
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "before": None if entry.before is None else redact(entry.before),
        "after": None if entry.after is None else redact(entry.after),
        "former": head.get("audit_sha256", NO_ROW),
    }
    row["sha256"] = _digest(row)
    change(
        db,
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        tuple(row.values()),
    )
    change(db, "UPDATE store SET audit_rows = ?, audit_sha256 = ?", (row["number"], row["sha256"]))


def newest(db: Database, limit: int) -> tuple[AuditEntry, ...]:
    """Return the newest entries, newest first."""
    rows = every(
        db,
        "SELECT at, actor, action, subject, before, after FROM audit ORDER BY number DESC LIMIT ?",
        (limit,),
    )
    return tuple(AuditEntry(**row) for row in rows)


def verify(db: Database) -> str | None:
    """Return what is wrong with the chain, in words; None when it is whole."""
    former, number = NO_ROW, 0
    for row in db.query(f"SELECT {_COLUMNS} FROM audit ORDER BY number"):  # noqa: S608
        number += 1
        if row["number"] != number:
            return f"audit row {number} is missing; row {row['number']} stands there"
        if row["former"] != former:
            return f"audit row {number} does not follow the row before it"
        if row["sha256"] != _digest(row):
            return f"audit row {number} was changed after it was written"
        former = row["sha256"]
    head = first(db, "SELECT audit_rows, audit_sha256 FROM store") or {}
    if (head.get("audit_rows"), head.get("audit_sha256")) != (number, former):
        return f"the audit ends at row {number}; {head.get('audit_rows')} rows were written"
    return None


def _digest(row: Row) -> str:
    fields = [row[name] for name in _COLUMNS.split(", ")[:-1]]
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()
