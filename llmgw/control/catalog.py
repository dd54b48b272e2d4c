"""The catalog as it is in force: models, checked, with history and audit through the store."""

import difflib
from collections.abc import Callable

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound
from llmgw.control.feed import Feed
from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.catalog_check import check_model
from llmgw.model.check import fingerprint
from llmgw.model.faulty import Faulty
from llmgw.model.feed import MODELS
from llmgw.store.interface import Store


class Catalog:
    """Every model of the cluster by its public name.

    Args:
        store: where models are kept.
        clock: the time of a change.
        feed: marked at each change.
    """

    def __init__(self, store: Store, clock: Clock, feed: Feed) -> None:
        self._store = store
        self._clock = clock
        self._feed = feed
        self._entries: dict[str, CatalogEntry] = {}
        self._prints: dict[tuple[str, str], str] = {}
        self._listeners: list[Callable[[str], None]] = []
        feed.serve(MODELS, lambda: tuple(self._entries), self._entries.get)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with a model's name after it changed; it must neither block nor raise."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read the catalog from the store: what it does not name is not there."""
        entries = await self._store.models()
        for name in sorted(self._entries.keys() - {entry.model.name for entry in entries}):
            self._drop(name)
        for entry in entries:
            if self._entries.get(entry.model.name) != entry:
                self._take(entry)

    def entries(self) -> tuple[CatalogEntry, ...]:
        """Return all models, by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def get(self, name: str) -> CatalogEntry | None:
        """Return a model; None when there is none of that name."""
        return self._entries.get(name)

    def profile(self, model: str, profile: str | None) -> tuple[Model, Profile]:
        """Return a model and one of its profiles, by name; None: the first.

        Raises:
            NotFound: there is no such model or profile.
        """
        entry = self._entries.get(model)
        if entry is None:
            near = difflib.get_close_matches(model, sorted(self._entries), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "list them: llmgw ctl models"
            raise NotFound(f"no model {model!r}", hint=hint)
        for one in entry.model.profiles:
            if profile is None or one.name == profile:
                return entry.model, one
        raise NotFound(f"model {model!r} has no profile {profile!r}")

    def fingerprint(self, model: str, profile: str) -> str | None:
        """Return what a replica of that profile would be started with now; None when it left."""
        return self._prints.get((model, profile))

    async def put(self, model: Model, expected: int | None, *, actor: str) -> CatalogEntry:
        """Add or replace a model.

        Args:
            model: what is wanted from now on.
            expected: its version; 0: must be new; None: whatever is there.
            actor: who changes it.

        Raises:
            Faulty: every problem, each with its path.
            Conflict: the version is another.
        """
        problems = check_model(model)
        if problems:
            raise Faulty(f"model {model.name!r}", problems)
        # As it will be read from the store after a restart: a 1 where a 1.0 belongs would give
        # another fingerprint then, and every replica would be rolled.
        whole = msgspec.convert(msgspec.to_builtins(model), Model)
        entry = await self._store.put_model(
            whole, expected=expected, actor=actor, at=self._clock.now()
        )
        self._take(entry)
        return entry

    async def remove(self, name: str, *, actor: str) -> None:
        """Remove a model; its replicas are stopped by the next pass.

        Raises:
            NotFound: there is none of that name.
        """
        await self._store.remove_model(name, actor=actor, at=self._clock.now())
        self._drop(name)

    async def history(self, name: str, limit: int = 100) -> tuple[CatalogEntry, ...]:
        """Return former and present versions of a model, newest first.

        Raises:
            NotFound: there never was one of that name.
        """
        versions = await self._store.model_history(name, limit)
        if not versions and name not in self._entries:
            raise NotFound(f"the catalog never had a model {name!r}")
        return versions

    def _take(self, entry: CatalogEntry) -> None:
        known = self._entries.get(entry.model.name)
        if known is not None and known.version > entry.version:
            return
        self._entries[entry.model.name] = entry
        self._forget_prints(entry.model.name)
        for profile in entry.model.profiles:
            self._note_print(entry.model, profile)
        self._tell(entry.model.name)

    def _drop(self, name: str) -> None:
        self._entries.pop(name, None)
        self._forget_prints(name)
        self._tell(name)

    def _note_print(self, model: Model, profile: Profile) -> None:
        self._prints[model.name, profile.name] = fingerprint(model, profile)

    def _forget_prints(self, name: str) -> None:
        for known in [pair for pair in self._prints if pair[0] == name]:
            del self._prints[known]

    def _tell(self, name: str) -> None:
        self._feed.mark(MODELS, name)
        for listener in self._listeners:
            listener(name)
