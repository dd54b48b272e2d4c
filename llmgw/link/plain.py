"""The plaintext mode: for loopback alone, where a peer is believed what it says of itself."""

import ipaddress
import math
from collections.abc import Mapping
from typing import Any, Final

from llmgw.base.errors import Refused, Unreadable, Usage
from llmgw.link.identity import Identity, read_uri

HEADER: Final = "llmgw-identity"


def claimed_identity(metadata: Mapping[str, Any] | None) -> Identity:
    """Return whom a peer without TLS says it is.

    Raises:
        Refused: it says nothing, or nothing that can be read.
    """
    claim = (metadata or {}).get(HEADER)
    if not isinstance(claim, str):
        raise Refused("the peer does not say who it is, and there is no certificate in plaintext")
    try:
        cluster, role, subject = read_uri(claim)
    except Unreadable as error:
        raise Refused(error.message) from error
    return Identity(cluster=cluster, role=role, id=subject, serial="", ends=math.inf)


def check_loopback(host: str) -> None:
    """Check that plaintext stays on this machine.

    Raises:
        Usage: it would not.
    """
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        raise Usage(
            f"{host}: the link without TLS is for loopback alone",
            hint="give certificates, or use 127.0.0.1",
        )
