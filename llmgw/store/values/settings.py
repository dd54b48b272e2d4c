"""The settings' newest version and every change of a path."""

from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import StoredSettings
from llmgw.store.rules.settings import audited, changed
from llmgw.store.values.audit import Audit
from llmgw.store.values.rows import as_kept, newest


class SettingsRows:
    """Version 0 with every default, until somebody writes."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._newest = StoredSettings(version=0, settings=Settings())
        self._changes: list[SettingsChange] = []

    def newest(self) -> StoredSettings:
        """Return the newest settings."""
        return as_kept(self._newest)

    def put(self, settings: Settings, expected: int, actor: str, at: float) -> StoredSettings:
        """Replace the settings, when `expected` is their version and anything differs."""
        changes = changed(self._newest, settings, expected, actor, at)
        if changes:
            self._newest = as_kept(StoredSettings(version=expected + 1, settings=settings))
            for change in changes:
                self._changes.append(change)
                self._audit.add(audited(change))
        return self.newest()

    def history(self, path: str, limit: int) -> tuple[SettingsChange, ...]:
        """Return changes at or below a dotted path, newest first."""
        below = [one for one in self._changes if not path or f"{one.path}.".startswith(f"{path}.")]
        return tuple(newest(below, limit))
