"""Takes each node's last readings into the history, once a step."""

import asyncio

from llmgw.base.clock import Clock
from llmgw.base.units import show_bytes
from llmgw.control.fleet import Fleet
from llmgw.control.history import STEP, History
from llmgw.model.node import READY

SLACK = 0.05
"""Seconds beyond a step's begin: woken a hair too early, a pass would find the step before."""
SLICE = 50
"""Nodes between two looks at whatever else waits: some 5 ms with eight devices each."""


class KeepHistory:
    """The pass `history`. A node that is not heard leaves a gap.

    Args:
        fleet: what is known of every node now.
        history: where it is kept.
        clock: a step is counted by its monotonic time and told by its wall-clock time.
    """

    def __init__(self, fleet: Fleet, history: History, clock: Clock) -> None:
        self._fleet = fleet
        self._history = history
        self._clock = clock

    def period(self) -> float:
        """Return the seconds until the next step begins."""
        return STEP - self._clock.monotonic() % STEP + SLACK

    async def run(self) -> str:
        """Keep one reading of everything, and return how much is kept."""
        nodes = self._fleet.nodes()
        self._history.begin(int(self._clock.monotonic() // STEP), self._clock.now())
        self._history.only({node.id for node in nodes})
        for index, node in enumerate(nodes, 1):
            sample = self._fleet.sample(node.id)
            if node.liveness == READY and sample is not None:
                self._history.keep(sample)
            if index % SLICE == 0:
                await asyncio.sleep(0)
        self._history.end()
        kept = self._history.nodes
        if not kept:
            return "no node was measured yet"
        size = show_bytes(self._history.bytes_per_node)
        return f"keeps the last hour of {kept} node{'' if kept == 1 else 's'}, {size} each"
