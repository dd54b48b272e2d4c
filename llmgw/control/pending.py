"""Starts that were sent and are not reported yet: they hold what they were given meanwhile."""

from dataclasses import dataclass
from typing import TypeVar

from llmgw.model.shard import STARTING, ShardSpec, ShardStatus


@dataclass(slots=True)
class Pending:
    """One start command on its way. Times: `sent` monotonic, `at` wall-clock seconds."""

    node: str
    spec: ShardSpec
    sent: float
    at: float
    accepted: bool = False
    given_up: bool = False
    """Nobody waits for it any more, and it holds what it was given until its node speaks."""

    def status(self) -> ShardStatus:
        """Return it as the shard that it will be."""
        words = "accepted, not reported yet" if self.accepted else "the start command is sent"
        return ShardStatus(
            replica=self.spec.replica,
            rank=self.spec.rank,
            state=STARTING,
            since=self.at,
            reason=words,
            spec=self.spec,
        )


Key = tuple[str, int]
"""Replica and rank."""


class PendingStarts:
    """All starts on their way, by replica and rank."""

    def __init__(self) -> None:
        self._by_replica: dict[str, dict[int, Pending]] = {}
        self._by_node: dict[str, dict[Key, Pending]] = {}

    def add(self, pending: Pending) -> None:
        """Note a start before it is sent."""
        replica, rank = pending.spec.replica, pending.spec.rank
        self.drop(replica, rank)
        self._by_replica.setdefault(replica, {})[rank] = pending
        self._by_node.setdefault(pending.node, {})[replica, rank] = pending

    def accepted(self, replica: str, rank: int) -> None:
        """Note that the agent took it: its report will follow, or its stream will end."""
        known = self._by_replica.get(replica, {}).get(rank)
        if known is not None:
            known.accepted = True

    def drop(self, replica: str, rank: int, node: str | None = None) -> Pending | None:
        """Forget a start (on that node alone, when one is named); return it."""
        known = self._by_replica.get(replica, {}).get(rank)
        if known is None or (node is not None and known.node != node):
            return None
        _remove(self._by_replica, replica, rank)
        _remove(self._by_node, known.node, (replica, rank))
        return known

    def on(self, node: str) -> tuple[Pending, ...]:
        """Return the starts that were sent to a node, those given up too."""
        return tuple(self._by_node.get(node, {}).values())

    def of(self, replica: str) -> tuple[Pending, ...]:
        """Return the starts on their way of a replica, by rank."""
        ranks = self._by_replica.get(replica, {})
        return tuple(ranks[rank] for rank in sorted(ranks) if not ranks[rank].given_up)

    def replicas(self) -> frozenset[str]:
        """Return the replicas that have a start on its way."""
        return frozenset(replica for replica in self._by_replica if self.of(replica))

    def overdue(self, now: float, grace: float) -> tuple[Pending, ...]:
        """Return the starts that nobody answered within the grace, in monotonic seconds.

        One that was accepted is not among them: its node will report it, or register again.
        """
        return tuple(
            one
            for ranks in self._by_replica.values()
            for one in ranks.values()
            if not (one.accepted or one.given_up) and now - one.sent >= grace
        )


Outer = TypeVar("Outer")
Inner = TypeVar("Inner")


def _remove(table: dict[Outer, dict[Inner, Pending]], outer: Outer, inner: Inner) -> None:
    of_outer = table[outer]
    del of_outer[inner]
    if not of_outer:
        del table[outer]
