"""Users' keys, operators' tokens, one-time tokens and secrets."""

from typing import Generic

from llmgw.model.keys import JoinToken
from llmgw.store.rules.credentials import Credential, audited, not_there, taken, used
from llmgw.store.values.audit import Audit


class CredentialRows(Generic[Credential]):
    """All of one kind, by id."""

    def __init__(self, kind: type[Credential], audit: Audit) -> None:
        self._kind: type[Credential] = kind
        self._audit = audit
        self._rows: dict[str, Credential] = {}

    def every_one(self) -> tuple[Credential, ...]:
        """Return all, by name."""
        return tuple(sorted(self._rows.values(), key=lambda one: (one.name, one.id)))

    def put(self, one: Credential, actor: str, at: float) -> None:
        """Add or replace one by its id."""
        self._audit.add(audited(self._rows.get(one.id), one, actor, at))
        self._rows[one.id] = one

    def remove(self, one_id: str, actor: str, at: float) -> None:
        """Remove one by its id."""
        if one_id not in self._rows:
            raise not_there(self._kind, one_id)
        self._audit.add(audited(self._rows.pop(one_id), None, actor, at))


class JoinTokenRows:
    """One-time tokens, used or not."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._rows: dict[str, JoinToken] = {}

    def put(self, token: JoinToken, actor: str, at: float) -> None:
        """Add one."""
        if token.id in self._rows:
            raise taken(token)
        self._rows[token.id] = token
        self._audit.add(audited(None, token, actor, at))

    def one(self, token_id: str) -> JoinToken:
        """Return one, used or not."""
        if token_id not in self._rows:
            raise not_there(JoinToken, token_id)
        return self._rows[token_id]

    def use(self, token_id: str, at: float) -> JoinToken:
        """Mark one as used; whoever comes second is refused."""
        self._rows[token_id] = used(self.one(token_id), at)
        return self._rows[token_id]
