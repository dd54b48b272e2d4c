"""The certificate authority of one cluster: its key never leaves the control plane.

A certificate carries its role and its id as a URI name, `llmgw://<cluster>/<role>/<id>`. That name
is what the link believes; the common name is for people, and limited to 64 characters.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.base.places import read_private
from llmgw.base.system import SystemFiles
from llmgw.base.world import Files

NODE = "node"
GATEWAY = "gateway"
SERVER = "server"
ADMIN = "admin"
USERS = "users"
"""What a gateway shows to its users: it names hosts, and opens nothing within the cluster."""
ROLES = (NODE, GATEWAY, SERVER, ADMIN, USERS)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Every control plane's certificate covers these."""

CERTIFICATE = "authority.pem"
KEY = "authority.key"
IDENTITY = "identity.pem"
"""A machine's own key and certificate in one file, so that both change in one step."""

_CA_LIFETIME = timedelta(days=3653)
_SKEW = 300.0
"""Seconds that a peer's clock may be behind when a certificate was just signed.

At most half a lifetime: a certificate is renewed at two thirds of what it says it lasts.
"""
_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate that was signed. `serial` in lower-case hexadecimal; times since the epoch."""

    certificate_pem: str
    serial: str
    ends: float
    begins: float


class Authority:
    """A cluster's certificate and key (EC P-256)."""

    def __init__(
        self, cluster: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self.cluster = cluster
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, cluster: str, now: float) -> "Authority":
        """Make a new authority; `now` in seconds since the epoch, it ends ten years later."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"llmgw {cluster}")
        begins = _time(now)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_time(now - _SKEW))
            .not_valid_after(begins + _CA_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(_key_id(key.public_key()), critical=False)
            .add_extension(_alternatives([_uri(cluster)]), critical=False)
        )
        return cls(cluster, builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        """Read the authority that `save` wrote.

        Raises:
            NotFound: there is none.
            Refused: somebody else may read its key.
            Unreadable: what is there is not one.
        """
        key_text = read_private(directory / KEY)
        try:
            text = (directory / CERTIFICATE).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"{directory / CERTIFICATE}: no such file") from error
        try:
            key = serialization.load_pem_private_key(key_text, password=None)
            certificate = x509.load_pem_x509_certificate(text)
        except (ValueError, TypeError) as error:
            raise Unreadable(f"{directory}: not a key and its certificate: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise Unreadable(f"{directory / KEY}: not an elliptic curve key")
        if key.public_key() != certificate.public_key():
            raise Unreadable(f"{directory}: {KEY} is not the key of {CERTIFICATE}")
        return cls(_cluster_of(certificate, directory), certificate, key)

    def save(self, directory: Path, files: Files | None = None) -> None:
        """Write certificate and key, both for this user alone."""
        place = files or SystemFiles()
        place.write(directory / KEY, _key_pem(self._key))
        place.write(directory / CERTIFICATE, self.certificate_pem.encode())

    @property
    def certificate_pem(self) -> str:
        """Return the authority's own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def sha256(self) -> str:
        """Return the hash of the certificate's DER form, which tokens carry."""
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        return hashlib.sha256(der).hexdigest()

    def sign(
        self,
        csr_pem: str,
        *,
        role: str,
        subject: str,
        addresses: Sequence[str] = (),
        now: float,
        lifetime: float,
    ) -> Signed:
        """Sign a request: the key is the request's, the names are the caller's alone.

        Args:
            csr_pem: PKCS #10, PEM.
            role: one of `ROLES`.
            subject: the id within the role.
            addresses: IP addresses and host names; loopback is added for a server.
            now: seconds since the epoch.
            lifetime: seconds; never beyond the authority's own end.

        Raises:
            Unreadable: it is not a signing request, or an address is none.
            Refused: its key is of another kind, or it names another role or id.
        """
        uri = _uri(self.cluster, role, subject)
        key = _requested_key(csr_pem, uri)
        ends = min(_time(now + lifetime), self._certificate.not_valid_after_utc)
        serial = x509.random_serial_number()
        names = [*addresses, *LOOPBACK] if role == SERVER else addresses
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .serial_number(serial)
            .not_valid_before(_time(now - min(_SKEW, lifetime / 2)))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(_purposes(role), critical=False)
            .add_extension(_key_id(key), critical=False)
            .add_extension(_issuer_id(self._key), critical=False)
            .add_extension(_alternatives([uri], names), critical=False)
        )
        made = builder.sign(self._key, hashes.SHA256())
        pem = made.public_bytes(serialization.Encoding.PEM).decode()
        return Signed(
            pem,
            format(serial, "x"),
            ends=made.not_valid_after_utc.timestamp(),
            begins=made.not_valid_before_utc.timestamp(),
        )

    def issue(
        self,
        directory: Path,
        *,
        role: str,
        subject: str,
        addresses: Sequence[str] = (),
        now: float,
        lifetime: float,
        files: Files | None = None,
    ) -> Signed:
        """Make a key here, sign its certificate and write both, and the authority, for one machine.

        The files are those that `llmgw.link.tls.files_in(directory)` reads. For machines that can't
        send a request: the control plane's own, and the gateway beside it. Raises as `sign`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        request = x509.CertificateSigningRequestBuilder().subject_name(_name(subject))
        csr = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        signed = self.sign(
            csr.decode(),
            role=role,
            subject=subject,
            addresses=addresses,
            now=now,
            lifetime=lifetime,
        )
        place = files or SystemFiles()
        place.write(directory / CERTIFICATE, self.certificate_pem.encode())
        place.write(directory / IDENTITY, _key_pem(key) + signed.certificate_pem.encode())
        return signed


def _requested_key(csr_pem: str, uri: str) -> ec.EllipticCurvePublicKey:
    """Return the key of a request that is signed with it and asks for no other name than `uri`."""
    try:
        request = x509.load_pem_x509_csr(csr_pem.encode())
        valid = request.is_signature_valid
        key = request.public_key()
        asked = _uris(request.extensions)
    except (ValueError, InvalidSignature) as error:
        raise Unreadable(f"not a certificate signing request: {error}") from error
    if not valid:
        raise Refused("the signing request is not signed with its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.key_size < 256:
        raise Refused("the signing request's key is not an elliptic curve key of 256 bits or more")
    for other in asked:
        if other != uri:
            named, allowed = other.rpartition("/")[2], uri.rpartition("/")[2]
            raise Refused(
                f"the signing request is for {other}, and the certificate would be {uri}",
                hint=f"start it as {allowed} (an agent: --node {allowed}), "
                f"or make a token for {named}",
            )
    return key


def _uris(extensions: x509.Extensions) -> tuple[str, ...]:
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(names.get_values_for_type(x509.UniformResourceIdentifier))


def _cluster_of(certificate: x509.Certificate, directory: Path) -> str:
    for uri in _uris(certificate.extensions):
        if uri.startswith("llmgw://"):
            return unquote(uri.removeprefix("llmgw://").strip("/"))
    raise Unreadable(f"{directory / CERTIFICATE}: not the certificate of an llmgw cluster")


def _uri(cluster: str, *parts: str) -> str:
    return "llmgw://" + "/".join(quote(part, safe="") for part in (cluster, *parts))


def _alternatives(
    uris: Iterable[str], addresses: Iterable[str] = ()
) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    names += [_address(address) for address in dict.fromkeys(addresses)]
    return x509.SubjectAlternativeName(names)


def _address(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        pass
    try:
        return x509.DNSName(address.encode("idna").decode())
    except (ValueError, UnicodeError) as error:
        raise Unreadable(f"{address!r} is neither an IP address nor a host name") from error


def _name(common_name: str) -> x509.Name:
    # The limit counts bytes of UTF-8; a character that it would cut in two is left out.
    cut = common_name.encode()[:_COMMON_NAME].decode(errors="ignore")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cut)])


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _key_id(key: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key)


def _issuer_id(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _purposes(role: str) -> x509.ExtendedKeyUsage:
    if role not in ROLES:
        raise Unreadable(f"{role!r} is not one of {', '.join(ROLES)}")
    if role == USERS:
        # Its key lies in the memory of processes that anybody talks to: it must not dial.
        return x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role == SERVER:
        # A node's certificate must not pass for a control plane's.
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    return x509.ExtendedKeyUsage(purposes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
