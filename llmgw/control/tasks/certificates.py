"""Renews the certificates of this machine's own control plane and gateway before they end."""

import ssl
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.control.home import Home, OwnCertificates
from llmgw.link.tls import files_in, reload
from llmgw.pki.authority import GATEWAY, SERVER

EVERY = 60.0
"""Seconds between two looks; a certificate lives for days and is renewed at two thirds."""


class RenewOwn:
    """The pass `certificates`.

    Args:
        context: the link's; takes a renewed certificate while it is in use.
        server_id: whom the certificates are for.
        addresses: what the control plane's covers.
        period: seconds between two passes.
    """

    def __init__(
        self,
        own: OwnCertificates,
        home: Home,
        context: ssl.SSLContext,
        *,
        clock: Clock,
        server_id: str,
        addresses: tuple[str, ...],
    ) -> None:
        self._own = own
        self._home = home
        self._context = context
        self._clock = clock
        self._server_id = server_id
        self._addresses = addresses

    def period(self) -> float:
        """Return the seconds between two looks."""
        return EVERY

    async def run(self) -> str:
        """Renew what is due and return what was."""
        renewed: list[str] = []
        if await self._renew(self._home.server, SERVER, self._addresses):
            reload(self._context, files_in(self._home.server))
            renewed.append("the control plane's")
        if await self._renew(self._home.gateway, GATEWAY, ()):
            renewed.append("the gateway's")
        what = " and ".join(renewed)
        return f"renewed {what} certificate" if what else "no certificate of this machine is due"

    async def _renew(self, directory: Path, role: str, addresses: tuple[str, ...]) -> bool:
        return await self._own.see_to(
            directory, role, self._server_id, now=self._clock.now(), addresses=addresses
        )
