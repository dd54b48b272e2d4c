"""What a change of a model becomes. A version number is never used again, also after a removal."""

from datetime import UTC

from llmgw.base.errors import Conflict, NotFound
from llmgw.base.units import show_moment
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry
from llmgw.store.shown import as_json


def check_expected(now: CatalogEntry | None, name: str, expected: int | None) -> None:
    """Refuse a change of another version than is there. `expected` None: whatever is there.

    Raises:
        Conflict: in words for a model that is new, there already, or changed meanwhile.
    """
    if expected is None or expected == (now.version if now else 0):
        return
    if now is None:
        raise Conflict(
            f"{name}: is not in the catalog; version {expected} was expected",
            hint="who removed it says: llmgw ctl audit",
        )
    said = f"version {now.version}, {_who(now)}"
    if expected == 0:
        raise Conflict(
            f"{name}: is in the catalog already, at {said}",
            hint=f"to replace it, name that version: {now.version}",
        )
    raise Conflict(
        f"{name}: is at {said}; not {expected}",
        hint="somebody changed it meanwhile: look again, then repeat the change",
    )


def _who(entry: CatalogEntry) -> str:
    return f"changed by {entry.changed_by} at {show_moment(entry.changed, zone=UTC)} UTC"


def not_there(name: str) -> NotFound:
    """Return the refusal of a model that the catalog has not."""
    return NotFound(f"{name}: there is no such model", hint="llmgw ctl models lists them")


def audited(
    name: str, before: Model | None, after: Model | None, who: str, at: float
) -> AuditEntry:
    """Return what the audit says of a model that was put, or removed (`after` None)."""
    return AuditEntry(
        at=at,
        actor=who,
        action="model.remove" if after is None else "model.put",
        subject=name,
        before=None if before is None else as_json(before),
        after=None if after is None else as_json(after),
    )
