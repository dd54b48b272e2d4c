"""The settings' newest version and every change of a path."""

import msgspec
from sqlite_utils import Database

from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import StoredSettings
from llmgw.store.rules.settings import audited, changed
from llmgw.store.tables import audit
from llmgw.store.tables.rows import change, every, first


def newest(db: Database) -> StoredSettings:
    """Return the newest settings; version 0 with every default when none were written."""
    row = first(db, "SELECT version, value FROM settings")
    if row is None:
        return StoredSettings(version=0, settings=Settings())
    return StoredSettings(
        version=row["version"], settings=msgspec.json.decode(row["value"], type=Settings)
    )


def put(db: Database, settings: Settings, expected: int, actor: str, at: float) -> StoredSettings:
    """Replace the settings, when `expected` is their version and anything differs."""
    now = newest(db)
    changes = changed(now, settings, expected, actor, at)
    if not changes:
        return now
    version = now.version + 1
    change(
        db,
        "INSERT INTO settings (id, version, value) VALUES (1, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET version = excluded.version, value = excluded.value",
        (version, msgspec.json.encode(settings).decode()),
    )
    for entry in changes:
        change(
            db,
            "INSERT INTO settings_changes (version, at, actor, path, before, after)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (version, at, actor, entry.path, entry.before, entry.after),
        )
        audit.add(db, audited(entry))
    return StoredSettings(version=version, settings=settings)


def history(db: Database, path: str, limit: int) -> tuple[SettingsChange, ...]:
    """Return changes at or below a dotted path, newest first; an empty path is the whole tree."""
    rows = every(
        db,
        "SELECT version, at, actor, path, before, after FROM settings_changes"
        " WHERE ? = '' OR path = ? OR substr(path, 1, length(?) + 1) = ? || '.'"
        " ORDER BY number DESC LIMIT ?",
        (path, path, path, path, limit),
    )
    return tuple(SettingsChange(**row) for row in rows)
