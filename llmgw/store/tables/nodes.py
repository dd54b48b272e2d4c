"""Nodes that once registered, and the certificates that the cluster signed."""

from sqlite_utils import Database

from llmgw.store.interface import StoredCertificate, StoredNode
from llmgw.store.rules.nodes import (
    NODE,
    check_same,
    never_registered,
    removal_audited,
    unknown,
    wish_audited,
)
from llmgw.store.tables import audit
from llmgw.store.tables.rows import change, every, first


def every_node(db: Database) -> tuple[StoredNode, ...]:
    """Return all nodes, by id."""
    return tuple(StoredNode(**row) for row in every(db, "SELECT * FROM nodes ORDER BY id"))


def put(db: Database, node: StoredNode) -> None:
    """Add or replace a node; when it was first seen, and its wish, stay."""
    change(
        db,
        "INSERT INTO nodes (id, first_seen, last_seen, wish) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET last_seen = excluded.last_seen",
        (node.id, node.first_seen, node.last_seen, node.wish),
    )


def set_wish(db: Database, node: str, wish: str | None, actor: str, at: float) -> None:
    """Cordon, drain or release a node."""
    before = _one(db, node)
    if before is None:
        raise never_registered(node)
    if before.wish == wish:
        return
    change(db, "UPDATE nodes SET wish = ? WHERE id = ?", (wish, node))
    audit.add(db, wish_audited(before, wish, actor, at))


def remove(db: Database, node: str, actor: str, at: float) -> tuple[str, ...]:
    """Forget a node, deny all its certificates, and return their serials."""
    before = _one(db, node)
    serials = tuple(
        row["serial"]
        for row in every(
            db,
            "SELECT serial FROM certificates WHERE role = ? AND subject = ? ORDER BY serial",
            (NODE, node),
        )
    )
    if before is None and not serials:
        raise unknown(node)
    change(db, "DELETE FROM nodes WHERE id = ?", (node,))
    change(db, "DELETE FROM hardware WHERE node = ?", (node,))
    change(
        db,
        "UPDATE certificates SET denied = ? WHERE role = ? AND subject = ? AND denied IS NULL",
        (at, NODE, node),
    )
    audit.add(db, removal_audited(node, before, serials, actor, at))
    return serials


def put_certificate(db: Database, certificate: StoredCertificate) -> None:
    """Record a certificate; the same one again changes nothing."""
    row = first(db, "SELECT * FROM certificates WHERE serial = ?", (certificate.serial,))
    if row is not None:
        check_same(StoredCertificate(**row), certificate)
        return
    change(
        db,
        "INSERT INTO certificates (serial, role, subject, ends, denied) VALUES (?, ?, ?, ?, ?)",
        (
            certificate.serial,
            certificate.role,
            certificate.subject,
            certificate.ends,
            certificate.denied,
        ),
    )


def denied(db: Database) -> frozenset[str]:
    """Return the serials of all denied certificates."""
    rows = every(db, "SELECT serial FROM certificates WHERE denied IS NOT NULL")
    return frozenset(row["serial"] for row in rows)


def _one(db: Database, node: str) -> StoredNode | None:
    row = first(db, "SELECT * FROM nodes WHERE id = ?", (node,))
    return StoredNode(**row) if row else None
