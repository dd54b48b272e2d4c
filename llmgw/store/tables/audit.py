"""What people changed, as a chain of rows; how they hang together is in `rules.audit`."""

import msgspec
from sqlite_utils import Database

from llmgw.model.events import AuditEntry
from llmgw.store.rules.audit import AuditRow, Head, fault, following
from llmgw.store.tables.rows import change, every, first

_COLUMNS = "number, at, actor, action, subject, before, after, former, sha256"


def add(db: Database, entry: AuditEntry) -> None:
    """Append an entry to the chain."""
    row = following(_head(db), entry)
    change(
        db,
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        msgspec.structs.astuple(row),
    )
    change(db, "UPDATE store SET audit_rows = ?, audit_sha256 = ?", (row.number, row.sha256))


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
    rows = db.query(f"SELECT {_COLUMNS} FROM audit ORDER BY number")  # noqa: S608
    return fault((AuditRow(**row) for row in rows), _head(db))


def _head(db: Database) -> Head:
    row = first(db, "SELECT audit_rows AS rows, audit_sha256 AS sha256 FROM store")
    return Head(**row) if row else Head()
