"""Users' keys, operators' tokens, one-time tokens and secrets. Of keys and tokens only hashes."""

from typing import TypeVar

import msgspec
from sqlite_utils import Database

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.model.events import AuditEntry
from llmgw.model.keys import JoinToken, Key, Token
from llmgw.store.shown import as_json
from llmgw.store.tables import audit
from llmgw.store.tables.rows import change, every, first

_HASH = frozenset({"sha256"})
_TABLES: dict[type, tuple[str, str]] = {Key: ("user_keys", "key"), Token: ("tokens", "token")}
"""Where each kind lies, and what it is called in audit and refusals."""

Credential = TypeVar("Credential", Key, Token)


def every_one(db: Database, kind: type[Credential]) -> tuple[Credential, ...]:
    """Return all of a kind, by name."""
    rows = every(db, f"SELECT value FROM {_TABLES[kind][0]} ORDER BY name, id")  # noqa: S608
    return tuple(msgspec.json.decode(row["value"], type=kind) for row in rows)


def put(db: Database, one: Credential, actor: str, at: float) -> None:
    """Add or replace one by its id."""
    table, word = _TABLES[type(one)]
    before = _one(db, type(one), one.id)
    change(
        db,
        f"INSERT INTO {table} (id, name, value) VALUES (?, ?, ?)"  # noqa: S608
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, value = excluded.value",
        (one.id, one.name, msgspec.json.encode(one).decode()),
    )
    _audit(db, f"{word}.put", one.id, actor, at, (before, one))


def remove(db: Database, kind: type[Credential], one_id: str, actor: str, at: float) -> None:
    """Remove one by its id."""
    table, word = _TABLES[kind]
    before = _one(db, kind, one_id)
    if before is None:
        raise NotFound(f"{one_id}: there is no such {word}")
    change(db, f"DELETE FROM {table} WHERE id = ?", (one_id,))  # noqa: S608
    _audit(db, f"{word}.remove", one_id, actor, at, (before, None))


def put_join(db: Database, token: JoinToken, actor: str, at: float) -> None:
    """Add a one-time token."""
    if first(db, "SELECT id FROM join_tokens WHERE id = ?", (token.id,)):
        raise Conflict(f"{token.id}: there is a join token of that id already")
    change(
        db,
        "INSERT INTO join_tokens (id, sha256, role, subject, expires, used)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (token.id, token.sha256, token.role, token.subject, token.expires, token.used),
    )
    _audit(db, "join_token.put", token.id, actor, at, (None, token))


def join(db: Database, token_id: str) -> JoinToken:
    """Return a one-time token, used or not."""
    row = first(db, "SELECT * FROM join_tokens WHERE id = ?", (token_id,))
    if row is None:
        raise NotFound(f"{token_id}: there is no such join token")
    return JoinToken(**row)


def use_join(db: Database, token_id: str, at: float) -> JoinToken:
    """Mark a one-time token as used; whoever comes second is refused."""
    taken = change(
        db,
        "UPDATE join_tokens SET used = ? WHERE id = ? AND used IS NULL AND expires > ?",
        (at, token_id, at),
    )
    token = join(db, token_id)
    if taken:
        return token
    why = "was used before" if token.used is not None else "has ended"
    raise Refused(
        f"join token {token_id} for {token.role} {token.subject} {why}",
        hint=f"make another: llmgw ctl {token.role} token {token.subject}",
    )


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
    row = first(db, f"SELECT value FROM {_TABLES[kind][0]} WHERE id = ?", (one_id,))  # noqa: S608
    return msgspec.json.decode(row["value"], type=kind) if row else None


def _audit(
    db: Database,
    action: str,
    subject: str,
    actor: str,
    at: float,
    pair: tuple[Key | Token | JoinToken | None, Key | Token | JoinToken | None],
) -> None:
    before, after = (None if one is None else as_json(one, hidden=_HASH) for one in pair)
    audit.add(
        db,
        AuditEntry(at=at, actor=actor, action=action, subject=subject, before=before, after=after),
    )
