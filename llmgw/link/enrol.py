"""How a machine gets its certificate, and the next one: the key is made here and never leaves.

Joining trusts nobody at first: the CA that answers is believed only when its hash is the token's,
and the token's secret is sent only after that, over a connection that is verified with that CA.
"""

import hashlib
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from llmgw.base.errors import Refused, Unreadable
from llmgw.base.secrets import Secret
from llmgw.base.system import SystemFiles
from llmgw.base.world import Files
from llmgw.link import codec
from llmgw.link.attempt import ask
from llmgw.link.connect import CONNECT_TIMEOUT, connect
from llmgw.link.identity import uri_of
from llmgw.link.own import Own, issued_by, own_certificate, own_of, read_certificate, renew_at
from llmgw.link.tls import files_in, joining_context
from llmgw.model.link import AuthorityAnswer, JoinAnswer, JoinRequest

__all__ = [
    "Joined",
    "Own",
    "TokenText",
    "join",
    "keep",
    "make_key_and_csr",
    "own_certificate",
    "renew_at",
]

_TOKEN: Final = re.compile(r"llmgw1\.([0-9a-f]{64})\.([0-9A-Za-z]+)\.([0-9A-Za-z_-]+)")
_COMMON_NAME: Final = 64
_NOTHING: Final = b""


@dataclass(frozen=True, slots=True)
class TokenText:
    """A one-time token, taken apart."""

    authority: str
    """The sha256 of the cluster's CA, hexadecimal."""
    id: str
    secret: Secret

    @classmethod
    def parse(cls, text: str) -> "TokenText":
        """Read `llmgw1.<sha256 of the CA>.<token id>.<secret>`.

        Raises:
            Unreadable: it is not one; the text is not quoted, since it may hold the secret.
        """
        match = _TOKEN.fullmatch(text.strip())
        if match is None:
            raise Unreadable(
                "that is not a join token",
                hint="it looks like llmgw1.<64 hex digits>.<id>.<secret>; was it cut when copied?",
            )
        return cls(authority=match[1], id=match[2], secret=Secret(match[3]))


Joined = Own
"""What joining gives."""


def make_key_and_csr(role: str, subject: str, cluster: str) -> tuple[bytes, str]:
    """Make a key (EC P-256) and a request to sign it for a role and an id; both in PEM."""
    return _key_and_csr(subject, uri_of(cluster, role, subject))


async def join(
    address: str,
    token: TokenText,
    directory: Path,
    *,
    role: str | None = None,
    subject: str | None = None,
    files: Files | None = None,
    timeout: float = CONNECT_TIMEOUT,
) -> Own:
    """Trade a one-time token for a certificate and keep it in a directory.

    Args:
        address: a control plane, `host:port`.
        token: from an operator.
        directory: gets key and certificate (0600) and the cluster's CA.
        role: what this machine is; with `subject`, a token that was made for another is refused
            instead of giving this machine that other's name.
        subject: this machine's own id.
        files: where it is written; the machine's own disk unless given.
        timeout: seconds for each of the two requests.

    Raises:
        Refused: the cluster is not the token's, or the token is wrong, used, ended or another's.
        Unreachable: nobody answers there.
    """
    answer = await _authority(address, timeout)
    _check_authority(answer, token, address)
    uri = uri_of(answer.cluster, role, subject) if role and subject else None
    key, csr = _key_and_csr(subject or "joining", uri)
    request = JoinRequest(token=token.id, secret=token.secret.reveal(), csr_pem=csr)
    data = codec.encode(request)
    connection = await connect(address, joining_context(answer.authority_pem), timeout=timeout)
    given = await ask(connection, codec.JOIN, data, JoinAnswer, timeout)
    return keep(directory, key, given.certificate_pem, answer.authority_pem, files)


def keep(
    directory: Path,
    key_pem: bytes,
    certificate_pem: str,
    authority_pem: str,
    files: Files | None = None,
) -> Own:
    """Write a certificate that was just signed; key and certificate change in one step.

    Raises:
        Refused: the certificate is not the key's, or not the CA's; nothing was written.
        Unreadable: it is no certificate of ours.
    """
    own = _checked(directory, key_pem, certificate_pem, authority_pem)
    place = files or SystemFiles()
    place.write(own.files.authority, authority_pem.encode())
    place.write(own.files.certificate, key_pem + certificate_pem.encode())
    return own


async def _authority(address: str, timeout: float) -> AuthorityAnswer:
    """Ask whoever answers for its CA; nothing secret is said."""
    connection = await connect(address, joining_context(None), timeout=timeout, verify=False)
    return await ask(connection, codec.GET_AUTHORITY, _NOTHING, AuthorityAnswer, timeout)


def _check_authority(answer: AuthorityAnswer, token: TokenText, address: str) -> None:
    try:
        der = ssl.PEM_cert_to_DER_cert(answer.authority_pem.strip())
    except ValueError as error:
        raise Unreadable(f"{address}: answered with something that is no certificate") from error
    found = hashlib.sha256(der).hexdigest()
    if found != token.authority:
        raise Refused(
            f"{address}: is of another cluster than the token: its CA is {found[:16]}…, "
            f"the token's is {token.authority[:16]}…",
            hint="check the address, or make a token at that cluster; nothing secret was sent",
        )


def _key_and_csr(common_name: str, uri: str | None) -> tuple[bytes, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    cut = common_name.encode()[:_COMMON_NAME].decode(errors="ignore")
    name = x509.NameAttribute(NameOID.COMMON_NAME, cut)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([name]))
    if uri is not None:
        alternative = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        builder = builder.add_extension(alternative, critical=False)
    csr = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem, csr.decode()


def _checked(directory: Path, key_pem: bytes, certificate_pem: str, authority_pem: str) -> Own:
    certificate = read_certificate(certificate_pem, "the certificate that was issued")
    authority = read_certificate(authority_pem, "the CA that came with it")
    key = serialization.load_pem_private_key(key_pem, password=None)
    if key.public_key() != certificate.public_key():
        raise Refused("the certificate that was issued is for another key")
    if not issued_by(certificate, authority):
        raise Refused("the certificate that was issued is not of the CA beside it")
    return own_of(files_in(directory), certificate)
