"""The settings' newest version and every change of a path."""

import msgspec
from sqlite_utils import Database

from llmgw.base.errors import Conflict
from llmgw.model.events import AuditEntry
from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import StoredSettings
from llmgw.store.shown import leaf_json, leaves
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
    if now.version != expected:
        raise Conflict(
            f"the settings are at version {now.version}, not {expected}",
            hint="somebody changed them meanwhile: look again, then repeat the change",
        )
    changes = _changes(now, settings, actor, at)
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
        audit.add(
            db,
            AuditEntry(
                at=at,
                actor=actor,
                action="settings.put",
                subject=entry.path,
                before=entry.before,
                after=entry.after,
            ),
        )
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


def _changes(
    now: StoredSettings, settings: Settings, actor: str, at: float
) -> list[SettingsChange]:
    before, after = leaves(now.settings), leaves(settings)
    paths = [*before, *(path for path in after if path not in before)]
    return [
        SettingsChange(
            version=now.version + 1,
            at=at,
            actor=actor,
            path=path,
            before=leaf_json(path, before[path]) if path in before else None,
            after=leaf_json(path, after[path]) if path in after else None,
        )
        for path in paths
        if (path in before) != (path in after) or before.get(path) != after.get(path)
    ]
