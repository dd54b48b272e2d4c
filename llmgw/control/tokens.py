"""Operators' tokens for the admin API: made, shown once, compared by hash."""

import random

from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, NotFound, Unreadable
from llmgw.base.ids import crockford
from llmgw.control.credentials import Entropy, id_of, make, matches, sha256
from llmgw.control.keys import checked_name, expiry
from llmgw.model.bounds import shortened
from llmgw.model.keys import ADMIN, ROLES, Token
from llmgw.store.interface import Store


class Tokens:
    """Every operator's token, as id and hash.

    Args:
        store: where tokens are kept.
        clock: the time of a change.
        rng: for ids.
        entropy: for the secret part.
    """

    def __init__(self, store: Store, clock: Clock, rng: random.Random, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._entropy = entropy
        self._tokens: dict[str, Token] = {}

    async def load(self) -> None:
        """Read the tokens from the store."""
        self._tokens = {token.id: token for token in await self._store.tokens()}

    def all(self) -> tuple[Token, ...]:
        """Return all tokens, by name."""
        return tuple(sorted(self._tokens.values(), key=lambda token: (token.name, token.id)))

    def who(self, text: str) -> Token | None:
        """Return the token that a text is; None when it is none, or one that ended."""
        token = self._tokens.get(id_of(text) or "")
        if token is None or not matches(text, token.sha256):
            return None
        if token.expires is not None and token.expires <= self._clock.now():
            return None
        return token

    async def make(
        self, role: str, name: str, *, actor: str, expires_in: float | None = None
    ) -> tuple[Token, str]:
        """Make a token; the text is shown once and kept nowhere.

        Raises:
            Unreadable: no such role, or the name can't be one.
        """
        made = make(crockford(self._rng, 10), self._entropy)
        token = self._token(made.text, role, name, expiry(self._clock.now(), expires_in))
        await self._keep(token, actor)
        return token, made.text

    async def adopt(self, text: str, role: str, name: str, *, actor: str) -> Token:
        """Take a text that exists already as a token: the one in `admin.token`.

        Raises:
            Unreadable: the text is not a token's.
        """
        token = self._token(text, role, name, None)
        await self._keep(token, actor)
        return token

    async def remove(self, token_id: str, *, actor: str) -> None:
        """Remove a token; it opens nothing from now on.

        Raises:
            NotFound: there is none of that id.
            Conflict: it is the last one with the role admin.
        """
        token = self._tokens.get(token_id)
        if token is None:
            raise NotFound(f"no token with the id {token_id!r}")
        admins = [other for other in self._tokens.values() if other.role == ADMIN]
        if admins == [token]:
            raise Conflict(
                f"{token.name!r} is the last token of the role {ADMIN}",
                hint="make another one first",
            )
        await self._store.remove_token(token_id, actor=actor, at=self._clock.now())
        self._tokens.pop(token_id, None)

    def _token(self, text: str, role: str, name: str, expires: float | None) -> Token:
        if role not in ROLES:
            raise Unreadable(
                f"no such role: {shortened(role, 60)!r}", hint="roles are " + ", ".join(ROLES)
            )
        token_id = id_of(text)
        if token_id is None:
            raise Unreadable("the text is not a token of llmgw")
        return Token(
            id=token_id,
            sha256=sha256(text),
            role=role,
            name=checked_name(name, "a token's name"),
            created=self._clock.now(),
            expires=expires,
        )

    async def _keep(self, token: Token, actor: str) -> None:
        await self._store.put_token(token, actor=actor, at=self._clock.now())
        self._tokens[token.id] = token
