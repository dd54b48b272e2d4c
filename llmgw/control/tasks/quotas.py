"""Lends slices of keys' limits to the gateways, each second."""

from collections.abc import Callable

from llmgw.control.gateways import Gateways
from llmgw.control.keys import Keys

PERIOD = 1.0
"""Seconds: what a gateway may use beyond a limit is what it does in about that time."""


class LendQuotas:
    """The pass `quotas`.

    Args:
        gateways: told their slices.
        keys: with their limits.
        store_away: says whether the store can't be asked now: gateways then call no key wrong.
    """

    def __init__(self, gateways: Gateways, keys: Keys, store_away: Callable[[], bool]) -> None:
        self._gateways = gateways
        self._keys = keys
        self._store_away = store_away

    def period(self) -> float:
        """Return the seconds between two passes."""
        return PERIOD

    async def run(self) -> str:
        """Lend what changed."""
        self._gateways.lend(self._keys.by_id(), store_away=self._store_away())
        return "gateways keep to their slices of keys' limits"
