"""Keys, tokens and one-time tokens: what is said of them. Of keys and tokens only hashes."""

from typing import TypeVar

import msgspec

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.model.events import AuditEntry
from llmgw.model.keys import JoinToken, Key, Token
from llmgw.store.shown import as_json

Credential = TypeVar("Credential", Key, Token)

_HASH = frozenset({"sha256"})
_WORDS: dict[type, str] = {Key: "key", Token: "token", JoinToken: "join token"}


def not_there(kind: type, one_id: str) -> NotFound:
    """Return the refusal of an id that nothing of that kind has."""
    return NotFound(f"{one_id}: there is no such {_WORDS[kind]}")


def taken(token: JoinToken) -> Conflict:
    """Return the refusal of a one-time token whose id is taken."""
    return Conflict(f"{token.id}: there is a join token of that id already")


def used(token: JoinToken, at: float) -> JoinToken:
    """Return a one-time token as used.

    Raises:
        Refused: it was used before, or it ended.
    """
    if token.used is None and token.expires > at:
        return msgspec.structs.replace(token, used=at)
    why = "was used before" if token.used is not None else "has ended"
    raise Refused(
        f"join token {token.id} for {token.role} {token.subject} {why}",
        hint=f"make another: llmgw ctl {token.role} token {token.subject}",
    )


def audited(
    before: Key | Token | None, after: Key | Token | JoinToken | None, actor: str, at: float
) -> AuditEntry:
    """Return what the audit says of one that was put, or removed (`after` None)."""
    one = after if after is not None else before
    assert one is not None  # noqa: S101 - nothing became nothing: no change
    return AuditEntry(
        at=at,
        actor=actor,
        action=f"{_WORDS[type(one)].replace(' ', '_')}.{'remove' if after is None else 'put'}",
        subject=one.id,
        before=None if before is None else as_json(before, hidden=_HASH),
        after=None if after is None else as_json(after, hidden=_HASH),
    )
