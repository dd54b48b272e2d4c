"""Stores what gateways counted, a little behind them: `/metrics` shows what is stored."""

from llmgw.control.gateways import Gateways

PERIOD = 2.0
"""Seconds; what a scrape shows is that much older than what gateways told."""


class KeepTraffic:
    """The pass `traffic`."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways

    def period(self) -> float:
        """Return the seconds between two passes."""
        return PERIOD

    async def run(self) -> str:
        """Store what is new."""
        await self._gateways.keep_traffic()
        return "what gateways counted is stored"
