"""Reading rows as plain dictionaries."""

from collections.abc import Sequence
from typing import Any

from sqlite_utils import Database

Row = dict[str, Any]


def every(db: Database, sql: str, values: Sequence[object] = ()) -> list[Row]:
    """Return all rows of a query; nothing of it stays open."""
    return list(db.query(sql, values))


def first(db: Database, sql: str, values: Sequence[object] = ()) -> Row | None:
    """Return the first row of a query, or None."""
    rows = every(db, sql, values)
    return rows[0] if rows else None


def change(db: Database, sql: str, values: Sequence[object] = ()) -> int:
    """Run a statement that changes something and return how many rows it changed."""
    return db.execute(sql, values).rowcount
