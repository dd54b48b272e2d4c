"""TLS towards users: the parent reads the certificate, the workers use it.

The parent tries what the files hold before it hands it on: a worker that is replaced while somebody
writes them starts with the pair that was good.
"""

import os
import ssl
from pathlib import Path

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable
from llmgw.base.log import get
from llmgw.base.places import check_private
from llmgw.gateway.config import GatewayServiceConfig
from llmgw.gateway.frames import Identity

log = get(__name__)

HANDSHAKE = 10.0
"""Seconds that a client has for it."""
PERIOD = 2.0
"""Seconds between two looks at the files."""


class CertificateFiles:
    """A certificate with its chain, and its key, in PEM; they may be one file.

    Args:
        certificate: its path.
        key: the key's; nobody else may read it.

    Raises:
        LlmgwError: they can't be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        self._why = ""
        """Why the newest is not taken; it is said once."""
        self.identity = self._read()
        fill(new_context(), self.identity, self._names())

    def changed(self) -> Identity | None:
        """Return what the files hold now, when that is news and can be used."""
        try:
            found = self._read()
            if found != self.identity:
                fill(new_context(), found, self._names())
        except LlmgwError as error:
            if error.message != self._why:
                log.warning("the changed certificate is not taken", why=error.message)
            self._why = error.message
            return None
        self._why = ""
        if found == self.identity:
            return None
        self.identity = found
        return found

    def _read(self) -> Identity:
        certificate, key = self._paths
        try:
            check_private(key)
            return Identity(certificate=certificate.read_bytes(), key=key.read_bytes())
        except FileNotFoundError as error:
            raise NotFound(f"{error.filename}: no such file") from error
        except OSError as error:
            raise Refused(f"{error.filename}: {error.strerror}") from error

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(str(path) for path in self._paths))


def certificate_of(config: GatewayServiceConfig) -> CertificateFiles | None:
    """Return the certificate that users see; None when they connect without TLS."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return CertificateFiles(Path(config.tls_cert), Path(config.tls_key))


def new_context() -> ssl.SSLContext:
    """Return a context for users' connections, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def fill(context: ssl.SSLContext, identity: Identity, names: str = "the certificate") -> None:
    """Let new connections get a certificate; those that are open keep theirs.

    Raises:
        Unreadable: it is none, or the key is another one's.
    """
    # ssl takes files alone: these are in memory, and of this process.
    fd = os.memfd_create("llmgw-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(identity.certificate + b"\n" + identity.key)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=lambda: b"")
    except ssl.SSLError as error:
        why = f"{names}: not a certificate and its key in PEM ({error.reason or error})"
        raise Unreadable(why) from error
    finally:
        os.close(fd)
