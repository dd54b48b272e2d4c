"""Pings the gateways, so that both sides notice a peer that is gone without closing.

Agents need no such pass: each heartbeat is answered.
"""

from llmgw.control.gateways import Gateways
from llmgw.control.settings import LiveSettings


class Pings:
    """The pass `pings`."""

    def __init__(self, gateways: Gateways, settings: LiveSettings) -> None:
        self._gateways = gateways
        self._settings = settings

    def period(self) -> float:
        """Return the seconds between two pings of one gateway."""
        return self._settings.current.settings.link.heartbeat_interval

    async def run(self) -> str:
        """Ping every gateway and return how many there are."""
        count = self._gateways.ping()
        return f"{count} gateway{'' if count == 1 else 's'} connected"
