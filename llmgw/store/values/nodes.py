"""Nodes that once registered, and the certificates that the cluster signed."""

import msgspec

from llmgw.store.interface import StoredCertificate, StoredNode
from llmgw.store.rules.nodes import (
    NODE,
    check_same,
    never_registered,
    removal_audited,
    unknown,
    wish_audited,
)
from llmgw.store.values.audit import Audit


class NodeRows:
    """Nodes by id, certificates by serial."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._nodes: dict[str, StoredNode] = {}
        self._certificates: dict[str, StoredCertificate] = {}

    def every_node(self) -> tuple[StoredNode, ...]:
        """Return all nodes, by id."""
        return tuple(self._nodes[node] for node in sorted(self._nodes))

    def put(self, node: StoredNode) -> None:
        """Add or replace a node; when it was first seen, and its wish, stay."""
        known = self._nodes.get(node.id, node)
        self._nodes[node.id] = msgspec.structs.replace(known, last_seen=node.last_seen)

    def set_wish(self, node: str, wish: str | None, actor: str, at: float) -> None:
        """Cordon, drain or release a node."""
        before = self._nodes.get(node)
        if before is None:
            raise never_registered(node)
        if before.wish != wish:
            self._nodes[node] = msgspec.structs.replace(before, wish=wish)
            self._audit.add(wish_audited(before, wish, actor, at))

    def remove(self, node: str, actor: str, at: float) -> tuple[str, ...]:
        """Forget a node, deny all its certificates, and return their serials."""
        before = self._nodes.get(node)
        mine = [
            one for one in self._certificates.values() if (one.role, one.subject) == (NODE, node)
        ]
        if before is None and not mine:
            raise unknown(node)
        self._nodes.pop(node, None)
        for one in mine:
            if one.denied is None:
                self._certificates[one.serial] = msgspec.structs.replace(one, denied=at)
        serials = tuple(sorted(one.serial for one in mine))
        self._audit.add(removal_audited(node, before, serials, actor, at))
        return serials

    def put_certificate(self, certificate: StoredCertificate) -> None:
        """Record a certificate; the same one again changes nothing."""
        there = self._certificates.setdefault(certificate.serial, certificate)
        check_same(there, certificate)

    def denied(self) -> frozenset[str]:
        """Return the serials of all denied certificates."""
        return frozenset(s for s, one in self._certificates.items() if one.denied is not None)
