"""What gateways counted, so that a control plane that starts anew goes on from it."""

from sqlite_utils import Database


def make(db: Database) -> None:
    """Make the table of the gateways' totals: one row for each, its value as JSON."""
    db.execute("CREATE TABLE traffic (gateway TEXT PRIMARY KEY, value TEXT NOT NULL)")
