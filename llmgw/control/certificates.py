"""Certificates that this cluster signs: for whom, until when, and which no longer open anything."""

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.control.settings import LiveSettings
from llmgw.link.identity import Identity
from llmgw.model.link import CertificateIssued
from llmgw.pki.authority import USERS, Authority, Signed
from llmgw.store.interface import Store, StoredCertificate

logger = log.get(__name__)


class Certificates:
    """Signing with the cluster's CA; every certificate is on record before it is handed out.

    Args:
        authority: the CA.
        store: keeps which certificates there are and which are denied.
        clock: the time they are signed at.
        settings: how long they live.
    """

    def __init__(
        self, authority: Authority, store: Store, clock: Clock, settings: LiveSettings
    ) -> None:
        self.authority = authority
        self._store = store
        self._clock = clock
        self._settings = settings
        self._denied: frozenset[str] = frozenset()

    async def load(self) -> None:
        """Read from the store which certificates are denied."""
        self._denied = await self._store.denied()

    def denied(self, serial: str) -> bool:
        """Say whether a certificate no longer opens anything."""
        return serial in self._denied

    def deny(self, serials: tuple[str, ...]) -> None:
        """Take certificates as denied that the store has denied."""
        self._denied |= frozenset(serials)

    def prepare(
        self, csr_pem: str, role: str, subject: str, addresses: tuple[str, ...] = ()
    ) -> Signed:
        """Sign a request. The certificate must be kept with `keep` before it is handed out.

        Raises:
            Unreadable: it is not a signing request.
            Refused: it asks for another role or id.
        """
        return self.authority.sign(
            csr_pem,
            role=role,
            subject=subject,
            addresses=addresses,
            now=self._clock.now(),
            lifetime=self.lifetime,
        )

    async def keep(self, signed: Signed, role: str, subject: str) -> None:
        """Keep a certificate on record, so that it can be denied."""
        await self._store.put_certificate(
            StoredCertificate(serial=signed.serial, role=role, subject=subject, ends=signed.ends)
        )
        logger.info("signed", role=role, subject=subject, serial=signed.serial)

    @property
    def lifetime(self) -> float:
        """Return how many seconds a certificate that is signed now lives."""
        return self._settings.current.settings.certificates.lifetime

    async def renew(self, identity: Identity, csr_pem: str) -> tuple[Signed, CertificateIssued]:
        """Sign the next certificate of a peer over its live stream; raises as `prepare`."""
        signed = self.prepare(csr_pem, identity.role, identity.id)
        await self.keep(signed, identity.role, identity.id)
        issued = CertificateIssued(
            certificate_pem=signed.certificate_pem, authority_pem=self.authority.certificate_pem
        )
        return signed, issued

    async def for_users(self, identity: Identity, csr_pem: str, peer: str) -> CertificateIssued:
        """Sign what a gateway shows to its users; raises as `prepare`.

        It names what the settings say, the gateway's id and the address that it speaks from, and
        nothing that the gateway itself asks for.

        Args:
            identity: the gateway's.
            csr_pem: its request.
            peer: where it speaks from, `host:port`.
        """
        host = peer.rpartition(":")[0].strip("[]")
        named = self._settings.current.settings.gateway.tls_names
        addresses = tuple(dict.fromkeys((*named, identity.id, *filter(None, (host,)))))
        signed = self.prepare(csr_pem, USERS, identity.id, addresses)
        await self.keep(signed, USERS, identity.id)
        return CertificateIssued(
            certificate_pem=signed.certificate_pem,
            authority_pem=self.authority.certificate_pem,
            for_users=True,
        )
