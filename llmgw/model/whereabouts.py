"""How a replica stands, its nodes considered: one verdict, for API, commands and console.

That a node is not heard is never written into its replicas (LINK-6): what they were when it last
spoke stays, and whoever shows them asks here. The agent is not the engine: one on an unreachable
node goes on serving as far as anybody knows; one on a lost node is asked only where nothing else
serves.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.model.node import LOST, READY, UNREACHABLE, Node
from llmgw.model.replica import OVER, Replica
from llmgw.model.shard import READY as SHARD_READY

UNHEARD = "not heard"
"""Its node has not said anything since this control plane began, and may be on its way."""

AWAY = (LOST, UNREACHABLE, UNHEARD)
"""What is told of a replica of which a node is away; of several the first counts."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the nodes of a replica say of it by being silent."""

    away: str | None = None
    """One of `AWAY`; None: all its nodes are heard, or nothing of it runs any more."""
    words: str = ""
    """Which nodes are away, and what it was when they were last heard."""


def whereabouts(replica: Replica, nodes: Mapping[str, Node]) -> Whereabouts:
    """Return whether a replica is out of reach.

    Args:
        replica: as the nodes reported it.
        nodes: all nodes by id; one that is not there says nothing.
    """
    if replica.state in OVER:
        return Whereabouts()
    silent: dict[str, list[str]] = {}
    for name in dict.fromkeys(shard.node for shard in replica.shards):
        node = nodes.get(name)
        if node is not None and node.liveness != READY:
            silent.setdefault(node.liveness or UNHEARD, []).append(name)
    away = next((word for word in AWAY if word in silent), None)
    if away is None:
        return Whereabouts()
    told = [_told(word, silent[word]) for word in AWAY if word in silent]
    last = f"last known as {replica.state}" if replica.state else "its state is not known"
    return Whereabouts(away, f"{'; '.join(told)}; {last}")


def shown_state(replica: Replica, nodes: Mapping[str, Node]) -> str | None:
    """Return what a replica is to whoever reads a list: its state, or that it is away."""
    return whereabouts(replica, nodes).away or replica.state


def serves(replica: Replica, nodes: Mapping[str, Node]) -> bool:
    """Say whether a replica counts as one that serves: it is ready, and no node of it is lost."""
    return replica.state == SHARD_READY and whereabouts(replica, nodes).away != LOST


def _told(word: str, names: list[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    what = "not heard since this control plane began" if word == UNHEARD else word
    return f"{', '.join(names)} {verb} {what}"
