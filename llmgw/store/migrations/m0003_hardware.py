"""What happened to ports and devices, so that a new leader knows what an earlier one saw."""

from sqlite_utils import Database


def make(db: Database) -> None:
    """Make the table of changes: the whole record as JSON, beside what is looked up."""
    db.execute(
        "CREATE TABLE hardware (id TEXT PRIMARY KEY, node TEXT NOT NULL, kind TEXT NOT NULL,"
        " subject TEXT NOT NULL, until REAL NOT NULL, value TEXT NOT NULL)"
    )
    db.execute("CREATE INDEX hardware_node ON hardware (node, id)")
    db.execute("CREATE INDEX hardware_until ON hardware (until)")
