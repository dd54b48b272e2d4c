"""Models and all their versions."""

import msgspec
from sqlite_utils import Database

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.store.rules.catalog import audited, check_expected, not_there
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
    check_expected(now, model.name, expected)
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
    audit.add(db, audited(model.name, now.model if now else None, model, actor, at))
    return entry


def remove(db: Database, name: str, actor: str, at: float) -> None:
    """Take a model out of the catalog; its versions stay in the history."""
    now = _present(db, name)
    if now is None:
        raise not_there(name)
    change(db, "DELETE FROM models WHERE name = ?", (name,))
    audit.add(db, audited(name, now.model, None, actor, at))


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
