"""Jobs, so that they outlive the leader that began them."""

from sqlite_utils import Database


def make(db: Database) -> None:
    """Make the table of jobs: the whole record as JSON, beside what they are ordered by."""
    db.execute(
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, created REAL NOT NULL, changed REAL NOT NULL,"
        " over INTEGER NOT NULL, value TEXT NOT NULL)"
    )
