"""What a store says of itself: whose it is, its schema, its term."""

from sqlite_utils import Database

from llmgw.base.errors import Refused
from llmgw.store.rules.audit import NO_ROW
from llmgw.store.rules.terms import above
from llmgw.store.tables.rows import change, first

APPLICATION = 0x6C6C6D67
"""`llmg` in SQLite's application id: tells a store from any other SQLite file."""


def check_schema(db: Database, where: str, known: int, version: str) -> None:
    """Refuse a store that a newer program wrote.

    Args:
        db: the database, new or old.
        where: its path, for the words.
        known: the highest schema number of this program.
        version: this program's version, for the words.
    """
    if not db["store"].exists():
        return
    row = first(db, "SELECT schema, version FROM store")
    if row is not None and row["schema"] > known:
        raise Refused(
            f"{where}: has schema {row['schema']}, written by llmgw {row['version']}; "
            f"this is llmgw {version}, which knows schemas up to {known}",
            hint=f"use llmgw {row['version']} or newer, or restore a backup of before the upgrade",
        )


def note(db: Database, *, schema: int, version: str, holder: str) -> None:
    """Write who has the store now and what it knows."""
    change(
        db,
        "INSERT INTO store (id, schema, version, term, holder, audit_rows, audit_sha256)"
        " VALUES (1, ?, ?, 0, ?, 0, ?) ON CONFLICT (id) DO UPDATE SET"
        " schema = excluded.schema, version = excluded.version, holder = excluded.holder",
        (schema, version, holder, NO_ROW),
    )


def lead(db: Database, holder: str) -> int:
    """Raise the term for a control plane that leads from now on, and return it."""
    change(db, "UPDATE store SET holder = ?, term = term + 1", (holder,))
    return term(db)


def term(db: Database) -> int:
    """Return the present term."""
    row = first(db, "SELECT term FROM store")
    return int(row["term"]) if row else 0


def raise_term(db: Database, at_least: int) -> int:
    """Raise the term above one that was seen; a term that is higher already stays."""
    change(db, "UPDATE store SET term = ?", (above(term(db), at_least),))
    return term(db)
