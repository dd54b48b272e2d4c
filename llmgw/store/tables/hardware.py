"""What happened to ports and devices: a day of it, and the last of each subject."""

from collections.abc import Sequence

import msgspec
from sqlite_utils import Database

from llmgw.model.hardware import HardwareChange
from llmgw.store.rules.bounds import HARDWARE, SUBJECTS
from llmgw.store.tables.rows import Row, change, every

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HardwareChange).decode

_DROP_OLD = """
DELETE FROM hardware WHERE node = :node AND (
    until < :before
    OR id NOT IN (SELECT id FROM hardware WHERE node = :node ORDER BY id DESC LIMIT :kept)
) AND id NOT IN (SELECT max(id) FROM hardware WHERE node = :node GROUP BY kind, subject)
"""
_DROP_MORE = """
DELETE FROM hardware WHERE node = :node
AND id NOT IN (SELECT id FROM hardware WHERE node = :node ORDER BY id DESC LIMIT :subjects)
"""


def put(db: Database, changes: Sequence[HardwareChange], before: float) -> None:
    """Keep changes, or replace those of the same id, and drop what is old of their nodes."""
    for one in changes:
        change(
            db,
            "INSERT INTO hardware (id, node, kind, subject, until, value) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET until = excluded.until, value = excluded.value",
            (one.id, one.node, one.kind, one.subject, one.until, _encode(one).decode()),
        )
    for node in dict.fromkeys(one.node for one in changes):
        db.execute(_DROP_OLD, {"node": node, "before": before, "kept": HARDWARE})
        db.execute(_DROP_MORE, {"node": node, "subjects": SUBJECTS})


def ended_since(db: Database, since: float, node: str | None) -> tuple[HardwareChange, ...]:
    """Return the changes that ended at or after a time, of one node or all, oldest first."""
    rows = every(
        db,
        "SELECT value FROM hardware WHERE until >= ? AND (? IS NULL OR node = ?) ORDER BY id",
        (since, node, node),
    )
    return _records(rows)


def last(db: Database) -> tuple[HardwareChange, ...]:
    """Return the last change of each subject, by node."""
    rows = every(
        db,
        "SELECT value FROM hardware WHERE id IN"
        " (SELECT max(id) FROM hardware GROUP BY node, kind, subject) ORDER BY node, id",
    )
    return _records(rows)


def _records(rows: Sequence[Row]) -> tuple[HardwareChange, ...]:
    return tuple(_decode(row["value"]) for row in rows)
