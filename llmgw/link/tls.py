"""TLS contexts: 1.3 alone, both sides with certificates of the cluster's own authority."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.base.places import check_private

AUTHORITY = "authority.pem"
IDENTITY = "identity.pem"
"""Key and certificate in one file: a renewal replaces both in one step."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where a process's certificate, key and the cluster's CA lie, in PEM.

    Certificate and key may be one file.
    """

    certificate: Path
    key: Path
    authority: Path


class OwnContext(ssl.SSLContext):
    """A context that knows which files it was made of."""

    files: TlsFiles


def files_in(directory: Path) -> TlsFiles:
    """Return the files that joining or a renewal writes into a directory."""
    identity = directory / IDENTITY
    return TlsFiles(certificate=identity, key=identity, authority=directory / AUTHORITY)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a control plane.

    A peer may come without a certificate, which is how a machine joins; every other service asks
    for one and for its role. `reload` makes it take a renewed certificate while it is in use.

    Raises:
        NotFound: a file is not there.
        Refused: others may read the key, or this user may not.
        Unreadable: a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _settle(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would skip looking at the certificate again, and nobody resumes here.
    context.num_tickets = 0
    _fill(context, files)
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context with which a joined machine dials; raises as `server_context`."""
    context = OwnContext(ssl.PROTOCOL_TLS_CLIENT)
    context.files = files
    _settle(context)
    _fill(context, files)
    return context


def joining_context(authority_pem: str | None) -> ssl.SSLContext:
    """Return the context of a machine that has no certificate yet.

    Args:
        authority_pem: the only CA to believe; None believes anybody, which is right for nothing
            but asking for the CA whose hash is then compared.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _settle(context)
    if authority_pem is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=authority_pem)
    return context


def reload(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Take renewed files into a context in use; connections that are open keep the old certificate.

    Raises as `server_context`, and then the context is as it was.
    """
    _fill(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)
    _fill(context, files)


def _settle(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])


def _fill(context: ssl.SSLContext, files: TlsFiles) -> None:
    for path in (files.certificate, files.key, files.authority):
        if not path.exists():
            raise NotFound(
                f"{path}: no such file",
                hint="join the cluster first: make a token there and start with --join TOKEN",
            )
    check_private(files.key)
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.authority)
    except PermissionError as error:
        raise Refused(f"{files.key}: this user may not read it") from error
    except ssl.SSLError as error:
        words = f"{files.certificate}, {files.key}, {files.authority}: {_reason(error)}"
        raise Unreadable(words) from error


def _reason(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the certificate's"
    return f"not a certificate, its key and a CA in PEM ({error.reason or error})"
