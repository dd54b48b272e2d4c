"""Users' keys, operators' tokens, one-time tokens and secrets. Of keys and tokens only hashes."""

import msgspec
from sqlite_utils import Database

from llmgw.model.keys import JoinToken, Key, Token
from llmgw.store.rules.credentials import Credential, audited, not_there, taken, used
from llmgw.store.tables import audit
from llmgw.store.tables.rows import change, every, first

_TABLES: dict[type, str] = {Key: "user_keys", Token: "tokens"}
"""Where each kind lies."""


def every_one(db: Database, kind: type[Credential]) -> tuple[Credential, ...]:
    """Return all of a kind, by name."""
    rows = every(db, f"SELECT value FROM {_TABLES[kind]} ORDER BY name, id")  # noqa: S608
    return tuple(msgspec.json.decode(row["value"], type=kind) for row in rows)


def put(db: Database, one: Credential, actor: str, at: float) -> None:
    """Add or replace one by its id."""
    table = _TABLES[type(one)]
    before = _one(db, type(one), one.id)
    change(
        db,
        f"INSERT INTO {table} (id, name, value) VALUES (?, ?, ?)"  # noqa: S608
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, value = excluded.value",
        (one.id, one.name, msgspec.json.encode(one).decode()),
    )
    audit.add(db, audited(before, one, actor, at))


def remove(db: Database, kind: type[Credential], one_id: str, actor: str, at: float) -> None:
    """Remove one by its id."""
    before = _one(db, kind, one_id)
    if before is None:
        raise not_there(kind, one_id)
    change(db, f"DELETE FROM {_TABLES[kind]} WHERE id = ?", (one_id,))  # noqa: S608
    audit.add(db, audited(before, None, actor, at))


def put_join(db: Database, token: JoinToken, actor: str, at: float) -> None:
    """Add a one-time token."""
    if first(db, "SELECT id FROM join_tokens WHERE id = ?", (token.id,)):
        raise taken(token)
    change(
        db,
        "INSERT INTO join_tokens (id, sha256, role, subject, expires, used)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (token.id, token.sha256, token.role, token.subject, token.expires, token.used),
    )
    audit.add(db, audited(None, token, actor, at))


def join(db: Database, token_id: str) -> JoinToken:
    """Return a one-time token, used or not."""
    row = first(db, "SELECT * FROM join_tokens WHERE id = ?", (token_id,))
    if row is None:
        raise not_there(JoinToken, token_id)
    return JoinToken(**row)


def use_join(db: Database, token_id: str, at: float) -> JoinToken:
    """Mark a one-time token as used; whoever comes second is refused."""
    token = used(join(db, token_id), at)
    change(db, "UPDATE join_tokens SET used = ? WHERE id = ?", (at, token_id))
    return token


def secret(db: Database, name: str, made: bytes) -> bytes:
    """Return the secret of that name; `made` becomes it when there is none."""
    change(
        db,
        "INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        (name, made),
    )
    row = first(db, "SELECT value FROM secrets WHERE name = ?", (name,))
    return bytes(row["value"]) if row else made


def _one(db: Database, kind: type[Credential], one_id: str) -> Credential | None:
    row = first(db, f"SELECT value FROM {_TABLES[kind]} WHERE id = ?", (one_id,))  # noqa: S608
    return msgspec.json.decode(row["value"], type=kind) if row else None
