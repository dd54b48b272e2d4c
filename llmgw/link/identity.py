"""Who a peer is: what its certificate says, and nothing else that it says."""

import shlex
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from llmgw.base.errors import Refused, Unreadable

NODE: Final = "node"
GATEWAY: Final = "gateway"
SERVER: Final = "server"
ADMIN: Final = "admin"
USERS: Final = "users"
"""What a gateway shows to its users; no service takes it."""
ROLES: Final = (NODE, GATEWAY, SERVER, ADMIN, USERS)

_SCHEME: Final = "llmgw://"
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """What one certificate says of its holder."""

    cluster: str
    role: str
    id: str
    serial: str
    """Hexadecimal, lower case, no leading zeros."""
    ends: float
    """Seconds since the epoch."""
    begins: float | None = None
    """The same; None without a certificate."""

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


def uri_of(cluster: str, role: str, subject: str) -> str:
    """Return the URI name that a certificate carries for a role and an id."""
    return _SCHEME + "/".join(quote(part, safe="") for part in (cluster, role, subject))


def read_uri(uri: str) -> tuple[str, str, str]:
    """Return cluster, role and id of a certificate's URI name.

    Raises:
        Unreadable: it is not such a name.
    """
    parts = uri.removeprefix(_SCHEME).split("/")
    if not uri.startswith(_SCHEME) or len(parts) != _PARTS or not all(parts):
        raise Unreadable(f"{uri!r} is not llmgw://<cluster>/<role>/<id>")
    cluster, role, subject = (unquote(part) for part in parts)
    if role not in ROLES:
        raise Unreadable(f"{uri!r}: the role is not one of {', '.join(ROLES)}")
    return cluster, role, subject


def identity_of(certificate: Mapping[str, Any] | None) -> Identity:
    """Return whom a verified certificate names.

    Args:
        certificate: what `getpeercert()` gave; None or empty when the peer showed none.

    Raises:
        Refused: there is none, or it does not name exactly one role and id.
    """
    if not certificate:
        raise Refused(
            "no certificate was shown",
            hint="join the cluster first: make a token there and start with --join TOKEN",
        )
    uris = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "URI"]
    ours = [uri for uri in uris if uri.startswith(_SCHEME)]
    if len(ours) != 1:
        raise Refused(f"the certificate names {len(ours)} llmgw identities, and has to name one")
    try:
        cluster, role, subject = read_uri(ours[0])
    except Unreadable as error:
        raise Refused(f"the certificate can't be used: {error.message}") from error
    return Identity(
        cluster=cluster,
        role=role,
        id=subject,
        serial=format(int(certificate["serialNumber"], 16), "x"),
        ends=float(ssl.cert_time_to_seconds(certificate["notAfter"])),
        begins=_begins(certificate),
    )


def _begins(certificate: Mapping[str, Any]) -> float | None:
    said = certificate.get("notBefore")
    return None if said is None else float(ssl.cert_time_to_seconds(said))


def check_role(identity: Identity, role: str) -> None:
    """Check that a peer may use a service that is for one role alone.

    Raises:
        Refused: its certificate carries another role.
    """
    if identity.role != role:
        raise Refused(
            f"the certificate is for {identity}, and this service takes those of role {role} alone"
        )


def check_id(identity: Identity, claimed: str) -> None:
    """Check that a peer speaks for the id of its own certificate.

    Raises:
        Refused: it calls itself something else.
    """
    if identity.id != claimed:
        raise Refused(
            f"the certificate is for {identity}, and the message says {claimed!r}",
            hint=f"start it as {identity.id}, or join it anew: "
            f"llmgw ctl {identity.role} token {shlex.quote(claimed)}",
        )
