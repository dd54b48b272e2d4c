"""Tells gateways what engines say that they have to do: what is new, at most once a second."""

from collections.abc import Callable

from llmgw.control.engine_loads import stale_after
from llmgw.control.gateways import Gateways
from llmgw.control.settings import LiveSettings
from llmgw.plan.records import Load

PERIOD = 1.0


class TellEngineLoads:
    """The pass `engine-loads`.

    Args:
        gateways: who is told.
        loads: returns what is known of every replica.
        settings: how often agents look.
    """

    def __init__(
        self, gateways: Gateways, loads: Callable[[], tuple[Load, ...]], settings: LiveSettings
    ) -> None:
        self._gateways = gateways
        self._loads = loads
        self._settings = settings

    def period(self) -> float:
        """Return the seconds between two passes."""
        return PERIOD

    async def run(self) -> str:
        """Tell every gateway what is new to it."""
        limit = stale_after(self._settings.current.settings.link.heartbeat_interval)
        told = self._gateways.tell_engine_loads(self._loads, limit)
        return f"{told} gateway{'' if told == 1 else 's'} told what engines have to do"
