"""Tells agents the settings that are in force: engines they should have, and how often they beat.

Newest value only, and only to the nodes whose settings differ, one node a second: a changed default
must not make every agent download at once. On a large fleet faster, so that all have it within five
minutes.
"""

import math

from llmgw.base.errors import LlmgwError
from llmgw.control.agents import Agents

EVERY = 1.0
WITHIN = 300.0
"""Seconds within which every node was told."""


class NodeSettingsPass:
    """The pass `engines`."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._tries: dict[str, int] = {}

    def period(self) -> float:
        """Return the seconds between two nodes."""
        return EVERY

    async def run(self) -> str:
        """Bring the next nodes up to the settings and return who is left."""
        behind = self._agents.behind()
        if not behind:
            return "every connected agent has the newest settings"
        # One that does not answer must not keep the others waiting: the least tried comes first.
        self._tries = {node: self._tries.get(node, 0) for node in behind}
        least_tried = sorted(behind, key=lambda node: (self._tries[node], node))
        batch = least_tried[: max(1, math.ceil(self._agents.count * EVERY / WITHIN))]
        failed: list[str] = []
        for node in batch:
            self._tries[node] += 1
            try:
                await self._agents.bring_up(node)
            except LlmgwError as error:
                failed.append(error.message)
        left = len(self._agents.behind())
        words = f"told {', '.join(batch)} the newest settings; {left} to go"
        return f"{words}; {'; '.join(failed)}" if failed else words
