"""Users' keys: made, shown once, listed, changed, revoked."""

import asyncio
import random
from collections.abc import Mapping

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.ids import crockford
from llmgw.control.credentials import Entropy, make
from llmgw.control.feed import Feed
from llmgw.model.bounds import shortened
from llmgw.model.feed import KEYS
from llmgw.model.keys import Key, QuotaFigures
from llmgw.store.interface import Store

NAME_MOST = 100


class Keys:
    """Every user's key, as id and hash.

    Args:
        store: where keys are kept.
        clock: the time of a change.
        rng: for ids.
        entropy: for the secret part.
        feed: marked at each change; gateways follow it.
    """

    def __init__(
        self, store: Store, clock: Clock, rng: random.Random, entropy: Entropy, feed: Feed
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._entropy = entropy
        self._feed = feed
        self._keys: dict[str, Key] = {}
        self._changing = asyncio.Lock()
        feed.serve(KEYS, lambda: tuple(self._keys), self._keys.get)

    async def load(self) -> None:
        """Read the keys from the store: what it does not name is not there."""
        keys = {key.id: key for key in await self._store.keys()}
        changed = [one for one in {**self._keys, **keys} if self._keys.get(one) != keys.get(one)]
        self._keys.clear()
        self._keys.update(keys)
        for key_id in changed:
            self._feed.mark(KEYS, key_id)

    def all(self) -> tuple[Key, ...]:
        """Return all keys, by name."""
        return tuple(sorted(self._keys.values(), key=lambda key: (key.name, key.id)))

    def by_id(self) -> Mapping[str, Key]:
        """Return all keys by id."""
        return self._keys

    def get(self, key_id: str) -> Key | None:
        """Return a key by id; None when there is none."""
        return self._keys.get(key_id)

    async def make(
        self,
        name: str,
        *,
        actor: str,
        models: tuple[str, ...] | None = None,
        expires_in: float | None = None,
        limits: QuotaFigures | None = None,
        priority: int = 0,
    ) -> tuple[Key, str]:
        """Make a key; the text is shown once and kept nowhere.

        Args:
            name: for people; need not be unique.
            actor: who makes it.
            models: models it may use; None: all.
            expires_in: seconds until it ends; None: never.
            limits: what it may use; None: anything.
            priority: requests of a higher one leave a queue first.

        Raises:
            Unreadable: the name can't be one, or the time is over already.
        """
        named = checked_name(name, "a key's name")
        expires = expiry(self._clock.now(), expires_in)
        made = make(crockford(self._rng, 10), self._entropy)
        key = Key(
            id=made.id,
            sha256=made.sha256,
            name=named,
            created=self._clock.now(),
            expires=expires,
            models=models,
            priority=priority,
            **msgspec.structs.asdict(limits or QuotaFigures()),
        )
        await self._store.put_key(key, actor=actor, at=self._clock.now())
        self._keys[key.id] = key
        self._feed.mark(KEYS, key.id)
        return key, made.text

    async def change(self, key_id: str, *, actor: str, changes: Mapping[str, object]) -> Key:
        """Change a key; gateways keep to it from their next batch on.

        Args:
            key_id: of the key.
            actor: who changes it.
            changes: new values by field: `name`, `models`, `expires`, limits, `priority`.

        Raises:
            NotFound: there is none of that id.
            Unreadable: the name can't be one.
        """
        async with self._changing:
            before = self._there(key_id)
            if "name" in changes:
                changes = {**changes, "name": checked_name(str(changes["name"]), "a key's name")}
            key = msgspec.structs.replace(before, **changes)
            if key != before:
                await self._store.put_key(key, actor=actor, at=self._clock.now())
                self._keys[key_id] = key
                self._feed.mark(KEYS, key_id)
            return key

    async def remove(self, key_id: str, *, actor: str) -> None:
        """Revoke a key: gateways refuse it from their next batch on.

        Raises:
            NotFound: there is none of that id.
        """
        async with self._changing:
            self._there(key_id)
            await self._store.remove_key(key_id, actor=actor, at=self._clock.now())
            self._keys.pop(key_id, None)
            self._feed.mark(KEYS, key_id)

    def _there(self, key_id: str) -> Key:
        key = self._keys.get(key_id)
        if key is None:
            raise NotFound(f"no key with the id {key_id!r}", hint="list them: llmgw ctl keys")
        return key


def checked_name(name: str, what: str) -> str:
    """Return a name for people, without blanks around it.

    Raises:
        Unreadable: it is empty, too long, or holds what can't be shown.
    """
    named = name.strip()
    if not named or len(named) > NAME_MOST or not named.isprintable():
        raise Unreadable(
            f"{what} is 1 to {NAME_MOST} printable characters, not {shortened(name, 60)!r}"
        )
    return named


def expiry(now: float, expires_in: float | None) -> float | None:
    """Return when something ends that lasts `expires_in` seconds; None: never.

    Raises:
        Unreadable: it would be over already.
    """
    if expires_in is None:
        return None
    if not expires_in > 0:
        raise Unreadable(f"must end in the future, not in {expires_in:g} seconds")
    return now + expires_in
