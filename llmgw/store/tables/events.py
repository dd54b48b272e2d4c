"""What happened, the newest of it."""

from sqlite_utils import Database

from llmgw.model.events import Event
from llmgw.store.rules.bounds import EVENTS
from llmgw.store.tables.rows import change, every


def add(db: Database, event: Event) -> None:
    """Keep an event; one of the same id is kept once."""
    change(
        db,
        "INSERT INTO events (id, at, severity, kind, subject, words) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (event.id, event.at, event.severity, event.kind, event.subject, event.words),
    )
    change(db, "DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?", (EVENTS,))


def since(db: Database, at: float, limit: int) -> tuple[Event, ...]:
    """Return the newest events at or after a time, oldest first."""
    rows = every(
        db,
        "SELECT id, at, severity, kind, subject, words FROM events WHERE at >= ?"
        " ORDER BY number DESC LIMIT ?",
        (at, limit),
    )
    return tuple(Event(**row) for row in reversed(rows))
