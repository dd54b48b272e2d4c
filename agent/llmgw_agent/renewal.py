"""A node's certificate: renewed over the live stream at two thirds of its life."""

import ssl
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.link.enrol import Own, keep, make_key_and_csr
from llmgw.link.identity import NODE
from llmgw.link.tls import client_context
from llmgw.model.link import CertificateIssued, CertificateRequest

log = get(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LONGEST_SLEEP = 3600.0
"""Seconds; the wall clock may have been set meanwhile."""


class Renewal:
    """Keeps one certificate alive. The key is made anew each time and never leaves.

    Args:
        own: the certificate as it lies on disk.
        directory: where it lies.
        clock: the time.
        files: writes key and certificate in one step.
    """

    def __init__(self, own: Own, directory: Path, clock: Clock, files: Files) -> None:
        self._own = own
        self._directory = directory
        self._clock = clock
        self._files = files
        self._asked: bytes | None = None

    @property
    def ends(self) -> float:
        """Return when the certificate ends, in seconds since the epoch."""
        return self._own.identity.ends

    def context(self) -> ssl.SSLContext:
        """Return a context with the newest certificate, for the next connection."""
        return client_context(self._own.files)

    async def due(self) -> None:
        """Return when the next certificate should be asked for."""
        while (left := self._own.renew_at - self._clock.now()) > 0:
            await self._clock.sleep(min(left, _LONGEST_SLEEP))

    async def pause(self) -> None:
        """Return when a request that was not answered should be made again."""
        left = self.ends - self._clock.now()
        await self._clock.sleep(max(_SHORTEST_PAUSE, min(_LONGEST_PAUSE, left / 4)))

    def request(self) -> CertificateRequest:
        """Return a request with a new key, which replaces one that was not answered."""
        identity = self._own.identity
        self._asked, csr = make_key_and_csr(NODE, identity.id, identity.cluster)
        return CertificateRequest(csr_pem=csr)

    def take(self, issued: CertificateIssued) -> None:
        """Keep the new certificate; one that is not of the newest request is left alone."""
        if self._asked is None:
            return
        try:
            self._own = keep(
                self._directory,
                self._asked,
                issued.certificate_pem,
                issued.authority_pem,
                self._files,
            )
        except (LlmgwError, OSError) as error:
            log.warning("certificate that was issued is not taken", why=str(error))
            return
        self._asked = None
        log.info(
            "certificate renewed", node=self._own.identity.id, serial=self._own.identity.serial
        )
