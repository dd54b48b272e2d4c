"""The nodes of a `FakePlane` and their agents: what was recorded of them."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

from llmgw.base.errors import LlmgwError, NotFound, Unreachable
from llmgw.control.feed import Feed
from llmgw.model.commands import LogLines, LogsRead, ReadLogs, Request
from llmgw.model.feed import NODES, REPLICAS, ROUTES, SAMPLES
from llmgw.model.gateway import Route
from llmgw.model.node import Node, Sample
from llmgw.model.record import Record
from llmgw.model.replica import Replica
from llmgw.plan.records import Booking, Drain, Load, MassLoss, NodeRoom, Observed
from llmgw.store.interface import StoredNode
from tests.fakes.fleet_parts import NOW, RecordedFleet


@dataclass
class FakeLosses:
    """Nodes that were lost together, if any were."""

    now: MassLoss | None = None


@dataclass
class FakeExecutor:
    """What was counted of plans that were carried out."""

    evictions: Counter[str] = field(default_factory=Counter)
    preemptions: Counter[str] = field(default_factory=Counter)


class FakeFleet:
    """Reads of a fleet, from records; a test changes them with `put`."""

    def __init__(self, feed: Feed, recorded: RecordedFleet) -> None:
        self._feed = feed
        self.losses = FakeLosses()
        self.given_up: tuple[Drain, ...] = ()
        self.known_loads: tuple[Load, ...] = ()
        self.topics: dict[str, dict[str, Record]] = {
            topic: cast("dict[str, Record]", dict(recorded.topics.get(topic, {})))
            for topic in (NODES, SAMPLES, REPLICAS, ROUTES)
        }
        for topic, records in self.topics.items():
            feed.serve(topic, records.keys, records.get)

    def put(self, topic: str, id_: str, record: Record | None) -> None:
        if record is None:
            self.topics[topic].pop(id_, None)
        else:
            self.topics[topic][id_] = record
        self._feed.mark(topic, id_)

    def nodes(self) -> tuple[Node, ...]:
        return tuple(cast("Node", one) for _, one in sorted(self.topics[NODES].items()))

    def node(self, node: str) -> Node | None:
        return cast("Node | None", self.topics[NODES].get(node))

    def sample(self, node: str) -> Sample | None:
        return cast("Sample | None", self.topics[SAMPLES].get(node))

    def replicas(self) -> tuple[Replica, ...]:
        return tuple(cast("Replica", one) for _, one in sorted(self.topics[REPLICAS].items()))

    def replica(self, replica: str) -> Replica | None:
        return cast("Replica | None", self.topics[REPLICAS].get(replica))

    def routes(self) -> tuple[Route, ...]:
        return tuple(cast("Route", one) for _, one in sorted(self.topics[ROUTES].items()))

    def drains(self) -> tuple[Drain, ...]:
        return self.given_up

    def loads(self) -> tuple[Load, ...]:
        return self.known_loads

    def observed(self) -> Observed:
        return Observed(
            nodes=tuple(
                NodeRoom(node=node, bookings=self._bookings(node.id)) for node in self.nodes()
            ),
            replicas=self.replicas(),
        )

    def _bookings(self, node: str) -> tuple[Booking, ...]:
        return tuple(
            Booking(replica=replica.id, rank=shard.rank, model=replica.model, devices=shard.devices)
            for replica in self.replicas()
            for shard in replica.shards
            if shard.node == node
        )


class FakeAgents:
    """Agents that answer requests for logs, or fail as a test says."""

    def __init__(self, fleet: FakeFleet) -> None:
        self._fleet = fleet
        self.lines: tuple[str, ...] = ("started", "registered with 127.0.0.1:7442")
        self.later: list[LogLines | LlmgwError] = []
        self.asked: list[tuple[str, Request]] = []
        self.failure: LlmgwError | None = None
        self.following = 0
        self.count = 2

    async def ask(self, node: str, request: Request, deadline: float | None = None) -> LogsRead:
        self._check(node)
        self.asked.append((node, request))
        wanted = request.lines if isinstance(request, ReadLogs) else 0
        return LogsRead(lines=self.lines[-wanted:] if wanted else (), sources=("m-1/0",))

    async def follow_logs(
        self, node: str, source: str | None, lines: int
    ) -> AsyncIterator[LogLines]:
        self._check(node)
        self.following += 1
        try:
            yield LogLines(request="r", lines=self.lines[-lines:])
            for one in self.later:
                if isinstance(one, LlmgwError):
                    raise one
                yield one
        finally:
            self.following -= 1

    def connected(self, node: str) -> bool:
        return self._fleet.node(node) is not None

    def _check(self, node: str) -> None:
        if self.failure is not None:
            raise self.failure
        if self._fleet.node(node) is None:
            raise NotFound(f"no node {node!r}")


def stored_node(node: Node) -> StoredNode:
    return StoredNode(id=node.id, first_seen=NOW - 86_400, last_seen=NOW, wish=node.wish)


def unreachable(node: str) -> Unreachable:
    return Unreachable(f"{node} has no stream to this control plane", hint="see whether it runs")
