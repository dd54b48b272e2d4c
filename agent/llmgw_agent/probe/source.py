"""A source of facts: a probe that knows how to tell what it read.

Inventory and heartbeat are made by asking every source in turn: each adds what it knows to what
those before it said. So a source that refines devices comes after the one that finds them, and one
that fails costs its own fields alone.
"""

from typing import Final

from llmgw.model.node import Heartbeat, Inventory

_AGAIN: Final = 20.0


class Source:
    """What most sources leave as it is; a subclass is a `probing.Probe` as well.

    Invariant: telling waits for nothing, and a reading older than a minute is not told in a
    heartbeat (`Kept.fresh`).
    """

    late = False
    """It is not asked before the first register: what it does takes time or cores."""

    @property
    def outdated(self) -> bool:
        """Say whether it learnt from others what makes its last reading another one.

        It is asked anew at once then: a period can be long where nothing was known to be there.
        """
        return False

    @property
    def again(self) -> float:
        """Return the seconds between two tries while it fails: what comes back is soon noticed."""
        return _AGAIN

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Return the inventory with what this source knows."""
        return inventory

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Return the heartbeat with what this source read."""
        return heartbeat

    async def close(self) -> None:
        """End what it keeps running."""
