"""This machine's own certificate: what it says, when it is renewed, why it may not be accepted."""

import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable
from llmgw.link.identity import Identity, read_uri
from llmgw.link.tls import OwnContext, TlsFiles


@dataclass(frozen=True, slots=True)
class Own:
    """This machine's own certificate. `begins` in seconds since the epoch."""

    files: TlsFiles
    identity: Identity
    begins: float

    @property
    def renew_at(self) -> float:
        """Return when to ask for the next one: at two thirds, in seconds since the epoch."""
        return renew_at(self.identity, self.identity.ends - self.begins)


def renew_at(identity: Identity, lifetime: float) -> float:
    """Return when two thirds of a certificate's lifetime are over, in seconds since the epoch."""
    return identity.ends - lifetime / 3


def own_certificate(files: TlsFiles) -> Own:
    """Return what this machine's own certificate says.

    Raises:
        NotFound: there is none: join first.
        Refused: this user may not read it.
        Unreadable: it is none of ours, or damaged.
    """
    try:
        text = files.certificate.read_text(errors="replace")
    except FileNotFoundError as error:
        raise NotFound(
            f"{files.certificate}: no such file",
            hint="join the cluster first: make a token there and start with --join TOKEN",
        ) from error
    except OSError as error:
        raise Refused(f"{files.certificate}: can't be read: {error.strerror}") from error
    try:
        return own_of(files, read_certificate(text, str(files.certificate)))
    except Unreadable as error:
        again = "bring it back from a copy, or join again: start with --join and a new token"
        raise Unreadable(error.message, hint=again) from error


def why_not_accepted(context: ssl.SSLContext | None, address: str, now: float) -> LlmgwError | None:
    """Return what is wrong with the certificate that was shown; None when nothing can be seen.

    A control plane that does not believe a certificate drops the connection without a word (the
    event loops don't send the alert), so that the reason is looked for on this side.
    """
    if not isinstance(context, OwnContext):
        return None
    again = "join again with a new token"
    try:
        own = own_certificate(context.files)
        shown = read_certificate(own.files.certificate.read_text(), str(own.files.certificate))
        authority = read_certificate(own.files.authority.read_text(), str(own.files.authority))
    except LlmgwError as error:
        return error
    if own.identity.ends <= now:
        return Refused(
            f"{address}: this machine's certificate ended",
            hint=f"{again}, or compare the clocks of both machines",
        )
    if not issued_by(shown, authority):
        return Refused(
            f"{address}: this machine's certificate is of another cluster's CA", hint=again
        )
    return None


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Say whether a certificate was signed by that CA."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_certificate(text: str, what: str) -> x509.Certificate:
    """Return the first certificate of a text, which may hold a key before it.

    Raises:
        Unreadable: there is none; `what` names the text.
    """
    begin = text.find("-----BEGIN CERTIFICATE-----")
    try:
        return x509.load_pem_x509_certificate(text[max(begin, 0) :].encode())
    except ValueError as error:
        raise Unreadable(f"{what}: not a certificate in PEM") from error


def own_of(files: TlsFiles, certificate: x509.Certificate) -> Own:
    """Return what a certificate says, as this machine's own.

    Raises:
        Unreadable: it is none of ours.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise Unreadable(f"{files.certificate}: names no llmgw identity") from error
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise Unreadable(f"{files.certificate}: names {len(uris)} identities, and has to name one")
    cluster, role, subject = read_uri(uris[0])
    identity = Identity(
        cluster=cluster,
        role=role,
        id=subject,
        serial=format(certificate.serial_number, "x"),
        ends=certificate.not_valid_after_utc.timestamp(),
        begins=certificate.not_valid_before_utc.timestamp(),
    )
    return Own(files, identity, certificate.not_valid_before_utc.timestamp())
