"""What a change of the settings becomes: the next version, and an entry for every path."""

from llmgw.base.errors import Conflict
from llmgw.model.events import AuditEntry
from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import StoredSettings
from llmgw.store.shown import leaf_json, leaves


def changed(
    now: StoredSettings, settings: Settings, expected: int, actor: str, at: float
) -> tuple[SettingsChange, ...]:
    """Return the changes that replace the settings; none: they differ in nothing.

    Raises:
        Conflict: `expected` is not the version that is there.
    """
    if now.version != expected:
        raise Conflict(
            f"the settings are at version {now.version}, not {expected}",
            hint="somebody changed them meanwhile: look again, then repeat the change",
        )
    before, after = leaves(now.settings), leaves(settings)
    paths = [*before, *(path for path in after if path not in before)]
    return tuple(
        SettingsChange(
            version=now.version + 1,
            at=at,
            actor=actor,
            path=path,
            before=leaf_json(path, before[path]) if path in before else None,
            after=leaf_json(path, after[path]) if path in after else None,
        )
        for path in paths
        if (path in before) != (path in after) or before.get(path) != after.get(path)
    )


def audited(change: SettingsChange) -> AuditEntry:
    """Return what the audit says of one change."""
    return AuditEntry(
        at=change.at,
        actor=change.actor,
        action="settings.put",
        subject=change.path,
        before=change.before,
        after=change.after,
    )
