"""Ends a step of how requests go: what came in it is kept, and the hour goes on."""

from llmgw.base.clock import Clock
from llmgw.control.gateways import Gateways
from llmgw.control.rates import STEP, Rates


class KeepRates:
    """The pass `rates`."""

    def __init__(self, gateways: Gateways, rates: Rates, clock: Clock) -> None:
        self._gateways = gateways
        self._rates = rates
        self._clock = clock

    def period(self) -> float:
        """Return the seconds between two passes."""
        return STEP

    async def run(self) -> str:
        """End the step."""
        self._rates.step(
            self._gateways.live_traffic(),
            self._gateways.queues(),
            monotonic=self._clock.monotonic(),
            at=self._clock.now(),
        )
        return "how requests went in the last step is kept"
