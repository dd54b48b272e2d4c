"""Nodes and certificates: what is refused, and what the audit says."""

from llmgw.base.errors import Conflict, NotFound
from llmgw.model.events import AuditEntry
from llmgw.store.interface import StoredCertificate, StoredNode
from llmgw.store.shown import as_json

NODE = "node"
"""The role whose certificates are denied with their node."""


def never_registered(node: str) -> NotFound:
    """Return the refusal of a wish for a node that is not known."""
    return NotFound(f"{node}: no such node ever registered", hint="llmgw ctl nodes lists them")


def unknown(node: str) -> NotFound:
    """Return the refusal of removing a node that is not known and has no certificate."""
    return NotFound(
        f"{node}: no such node, and no certificate of it", hint="llmgw ctl nodes lists them"
    )


def check_same(there: StoredCertificate, given: StoredCertificate) -> None:
    """Refuse a serial that another certificate has.

    Raises:
        Conflict: names both.
    """
    if (there.role, there.subject, there.ends) != (given.role, given.subject, given.ends):
        raise Conflict(
            f"certificate {given.serial} is {there.role} {there.subject}'s, "
            f"not {given.role} {given.subject}'s"
        )


def wish_audited(before: StoredNode, wish: str | None, actor: str, at: float) -> AuditEntry:
    """Return what the audit says of a wish."""
    return AuditEntry(
        at=at,
        actor=actor,
        action="node.wish",
        subject=before.id,
        before=as_json(before.wish),
        after=as_json(wish),
    )


def removal_audited(
    node: str, before: StoredNode | None, serials: tuple[str, ...], actor: str, at: float
) -> AuditEntry:
    """Return what the audit says of a node's removal; `before` None: only its certificates were."""
    return AuditEntry(
        at=at,
        actor=actor,
        action="node.remove",
        subject=node,
        before=None if before is None else as_json(before),
        after=as_json({"denied": serials}),
    )
