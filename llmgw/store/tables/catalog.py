"""Models and all their versions. A version number is never used again, also after a removal."""

import msgspec
from sqlite_utils import Database

from llmgw.base.errors import Conflict, NotFound
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry
from llmgw.store.shown import as_json
from llmgw.store.tables import audit
from llmgw.store.tables.rows import Row, change, every, first

_ENTRIES = (
    "SELECT v.version, v.changed, v.changed_by, v.value FROM models m"
    " JOIN model_versions v ON v.name = m.name AND v.version = m.version"
)


def entries(db: Database) -> tuple[CatalogEntry, ...]:
    """Return the catalog, by name."""
    return tuple(_entry(row) for row in every(db, f"{_ENTRIES} ORDER BY m.name"))


def put(db: Database, model: Model, expected: int | None, actor: str, at: float) -> CatalogEntry:
    """Add or replace a model, when its version is the expected one and anything differs."""
    now = _present(db, model.name)
    if expected is not None and expected != (now.version if now else 0):
        raise _conflict(model.name, now, expected)
    if now is not None and now.model == model:
        return now
    entry = CatalogEntry(
        model=model, version=_last_version(db, model.name) + 1, changed=at, changed_by=actor
    )
    change(
        db,
        "INSERT INTO model_versions (name, version, changed, changed_by, value)"
        " VALUES (?, ?, ?, ?, ?)",
        (model.name, entry.version, at, actor, msgspec.json.encode(model).decode()),
    )
    change(
        db,
        "INSERT INTO models (name, version) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
        (model.name, entry.version),
    )
    _audit(db, "model.put", model.name, actor, at, (now.model if now else None, model))
    return entry


def remove(db: Database, name: str, actor: str, at: float) -> None:
    """Take a model out of the catalog; its versions stay in the history."""
    now = _present(db, name)
    if now is None:
        raise NotFound(f"{name}: there is no such model", hint="llmgw ctl models lists them")
    change(db, "DELETE FROM models WHERE name = ?", (name,))
    _audit(db, "model.remove", name, actor, at, (now.model, None))


def history(db: Database, name: str, limit: int) -> tuple[CatalogEntry, ...]:
    """Return former and present versions of a model, newest first."""
    rows = every(
        db,
        "SELECT version, changed, changed_by, value FROM model_versions WHERE name = ?"
        " ORDER BY version DESC LIMIT ?",
        (name, limit),
    )
    return tuple(_entry(row) for row in rows)


def _present(db: Database, name: str) -> CatalogEntry | None:
    row = first(db, f"{_ENTRIES} WHERE m.name = ?", (name,))
    return _entry(row) if row else None


def _last_version(db: Database, name: str) -> int:
    row = first(db, "SELECT max(version) AS last FROM model_versions WHERE name = ?", (name,))
    return int(row["last"] or 0) if row else 0


def _entry(row: Row) -> CatalogEntry:
    return CatalogEntry(
        model=msgspec.json.decode(row["value"], type=Model),
        version=row["version"],
        changed=row["changed"],
        changed_by=row["changed_by"],
    )


def _conflict(name: str, now: CatalogEntry | None, expected: int) -> Conflict:
    if now is None:
        return Conflict(f"{name}: is not in the catalog; version {expected} was expected")
    if expected == 0:
        return Conflict(
            f"{name}: is in the catalog already, at version {now.version}",
            hint=f"to replace it, name that version: {now.version}",
        )
    return Conflict(
        f"{name}: is at version {now.version}, changed by {now.changed_by}; not {expected}",
        hint="somebody changed it meanwhile: look again, then repeat the change",
    )


def _audit(
    db: Database,
    action: str,
    name: str,
    actor: str,
    at: float,
    models: tuple[Model | None, Model | None],
) -> None:
    before, after = models
    audit.add(
        db,
        AuditEntry(
            at=at,
            actor=actor,
            action=action,
            subject=name,
            before=None if before is None else as_json(before),
            after=None if after is None else as_json(after),
        ),
    )
