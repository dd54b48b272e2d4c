"""Models and all their versions."""

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.store.rules.catalog import audited, check_expected, not_there
from llmgw.store.values.audit import Audit
from llmgw.store.values.rows import as_kept, newest


class CatalogRows:
    """Every version by name, and which names are in the catalog now."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._versions: dict[str, list[CatalogEntry]] = {}
        self._present: set[str] = set()

    def entries(self) -> tuple[CatalogEntry, ...]:
        """Return the catalog, by name."""
        return tuple(as_kept(self._versions[name][-1]) for name in sorted(self._present))

    def version(self, name: str) -> int | None:
        """Return a model's version; None: it is not in the catalog."""
        now = self._now(name)
        return None if now is None else now.version

    def put(self, model: Model, expected: int | None, actor: str, at: float) -> CatalogEntry:
        """Add or replace a model, when its version is the expected one and anything differs."""
        now = self._now(model.name)
        check_expected(now, model.name, expected)
        if now is not None and now.model == model:
            return as_kept(now)
        versions = self._versions.setdefault(model.name, [])
        entry = as_kept(
            CatalogEntry(model=model, version=len(versions) + 1, changed=at, changed_by=actor)
        )
        versions.append(entry)
        self._present.add(model.name)
        self._audit.add(audited(model.name, now.model if now else None, model, actor, at))
        return as_kept(entry)

    def remove(self, name: str, actor: str, at: float) -> None:
        """Take a model out of the catalog; its versions stay in the history."""
        now = self._now(name)
        if now is None:
            raise not_there(name)
        self._present.remove(name)
        self._audit.add(audited(name, now.model, None, actor, at))

    def history(self, name: str, limit: int) -> tuple[CatalogEntry, ...]:
        """Return former and present versions of a model, newest first."""
        return tuple(as_kept(one) for one in newest(self._versions.get(name, []), limit))

    def _now(self, name: str) -> CatalogEntry | None:
        return self._versions[name][-1] if name in self._present else None
