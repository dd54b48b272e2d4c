"""The cluster's certificate for a gateway's users: asked for over the link, kept, renewed."""

from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import get
from llmgw.gateway.frames import Identity
from llmgw.gateway.tls import fill, new_context
from llmgw.link.enrol import Own, keep, make_key_and_csr, own_certificate
from llmgw.link.identity import USERS
from llmgw.link.identity import Identity as Named
from llmgw.link.own import read_certificate
from llmgw.link.tls import files_in
from llmgw.model.link import CertificateIssued, CertificateRequest

log = get(__name__)

ASK_AGAIN = 10.0
"""Seconds after which a request that was not answered is sent again."""


class UsersCertificate:
    """What `--tls cluster` shows to users.

    Args:
        directory: where it is kept.
        who: returns who this gateway is.
        changed: told of each new one, and whether it is the first that there is.
    """

    def __init__(
        self, directory: Path, who: Callable[[], Named], changed: Callable[[Identity, bool], None]
    ) -> None:
        self._directory = directory
        self._who = who
        self._changed = changed
        self._names: frozenset[str] | None = None
        self._key: bytes | None = None
        self._asked = float("-inf")
        self._own: Own | None = None
        self._named: frozenset[str] = frozenset()
        self.identity: Identity | None = None
        """What is shown; None: there is none yet, and nobody is listened to."""
        self._take_kept()

    def want(self, names: tuple[str, ...]) -> None:
        """Note under which names and addresses users reach gateways."""
        self._names = frozenset(names)

    def request(self, now: float) -> CertificateRequest | None:
        """Return a request for a new one when it is time for it.

        Args:
            now: wall-clock seconds.
        """
        if self._names is None or now - self._asked < ASK_AGAIN or self._is_good(now):
            return None
        self._asked = now
        who = self._who()
        self._key, csr = make_key_and_csr(USERS, who.id, who.cluster)
        return CertificateRequest(csr_pem=csr, for_users=True)

    def issued(self, answer: CertificateIssued) -> None:
        """Keep the one that was asked for, and have it shown."""
        key, self._key = self._key, None
        if key is None:
            return
        self._asked = float("-inf")  # answered: what has to be asked next need not wait
        first = self.identity is None
        try:
            keep(self._directory, key, answer.certificate_pem, answer.authority_pem)
            self._read()
        except (LlmgwError, OSError) as error:
            log.warning("the certificate for users could not be kept", why=str(error))
            return
        if self.identity is not None and self._own is not None:
            log.info("a certificate for users", names=sorted(self._named), ends=self._ends)
            self._changed(self.identity, first)

    @property
    def _ends(self) -> float:
        return 0.0 if self._own is None else self._own.identity.ends

    def _is_good(self, now: float) -> bool:
        """Say whether the one that is shown names all that it has to, and lasts for a while."""
        own, who = self._own, self._who()
        if own is None or (own.identity.cluster, own.identity.id) != (who.cluster, who.id):
            return False
        return now < own.renew_at and (self._names or frozenset()) <= self._named

    def _take_kept(self) -> None:
        try:
            self._read()
        except NotFound:
            return
        except (LlmgwError, OSError) as error:
            log.warning("the kept certificate for users can't be used", why=str(error))

    def _read(self) -> None:
        files = files_in(self._directory)
        own = own_certificate(files)
        text = files.certificate.read_bytes()
        found = Identity(certificate=text, key=b"")
        fill(new_context(), found, str(files.certificate))
        certificate = read_certificate(text.decode(), str(files.certificate))
        self._named = _names_of(certificate)
        self._own, self.identity = own, found


def _names_of(certificate: x509.Certificate) -> frozenset[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = (str(one) for one in names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))
