"""Pings the gateways, so that both sides notice a peer that is gone without closing.

Agents need no such pass: each heartbeat is answered.

While a replica that is given up waits for gateways to say that they have left it, they are pinged
more often: their answers tell.
"""

from collections.abc import Callable, Iterable

from llmgw.control.gateways import Gateways
from llmgw.control.settings import LiveSettings
from llmgw.plan.records import Drain

OFTEN = 0.3
"""Seconds between two pings while their answers are waited for."""


class Pings:
    """The pass `pings`.

    Args:
        drains: returns what is given up and not gone yet.
    """

    def __init__(
        self,
        gateways: Gateways,
        settings: LiveSettings,
        drains: Callable[[], Iterable[Drain]],
    ) -> None:
        self._gateways = gateways
        self._drains = drains
        self._settings = settings

    def period(self) -> float:
        """Return the seconds between two pings of one gateway."""
        interval = self._settings.current.settings.link.heartbeat_interval
        waits = any(not (one.settled or one.told) for one in self._drains())
        return min(interval, OFTEN) if waits else interval

    async def run(self) -> str:
        """Ping every gateway and return how many there are."""
        count = self._gateways.ping()
        return f"{count} gateway{'' if count == 1 else 's'} connected"
