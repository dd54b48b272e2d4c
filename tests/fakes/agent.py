"""An agent of one process: recorded facts, a shard table, streams in memory."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import LogRing
from llmgw.link.dial import Dialer
from llmgw.model.catalog import Source
from llmgw.model.commands import HELD, WeightsRemoved, WeightsState
from llmgw.model.link import AgentControl, AgentMessage, Welcome
from llmgw.model.node import Heartbeat, Host, InstalledEngine, Inventory, WeightsHeld
from llmgw.model.settings import EngineOrder, NodeSettings
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw_agent.core import AgentCore, Parts, Who
from llmgw_agent.remembered import Remembered
from llmgw_agent.stream import Renewing
from llmgw_agent.uplink import Uplink
from tests.fakes.machine import MemoryFiles

REMEMBERED = Path("/state/cluster.json")


class RecordedFacts:
    """Facts that a test, or a recorded fleet, gives."""

    def __init__(self, inventory: Inventory, heartbeat: Heartbeat | None = None) -> None:
        self.recorded = inventory
        self.reading = heartbeat or Heartbeat(sequence=0)

    def inventory(self) -> Inventory:
        return self.recorded

    def heartbeat(self, sequence: int, sent: float) -> Heartbeat:
        import msgspec

        return msgspec.structs.replace(self.reading, sequence=sequence, sent=sent)

    async def first_look(self) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


class FakeEngines:
    """Engines whose list the test sets."""

    def __init__(self) -> None:
        self.list: tuple[InstalledEngine, ...] = ()
        self.probed = False
        self.orders: list[dict[str, EngineOrder]] = []

    def installed(self) -> tuple[InstalledEngine, ...]:
        return self.list

    def can_install(self) -> tuple[str, ...]:
        return ("llamacpp",)

    def order(self, orders: dict[str, EngineOrder]) -> None:
        self.orders.append(orders)

    async def run(self) -> None:
        await asyncio.Event().wait()


class FakeNodeWeights:
    """Weights whose list the test sets."""

    def __init__(self) -> None:
        self.sets: tuple[WeightsHeld, ...] | None = ()
        self.print: str | None = "none"
        self.removals: list[tuple[tuple[str, ...], frozenset[str]]] = []
        self.wanted: list[tuple[Source, bool]] = []
        self.how_far = WeightsState(state=HELD)

    def held(self) -> tuple[WeightsHeld, ...] | None:
        return self.sets

    def fingerprint(self) -> str | None:
        return self.print

    def state(self, source: Source, *, check_only: bool) -> WeightsState:
        self.wanted.append((source, check_only))
        return self.how_far

    async def remove(self, names: tuple[str, ...], in_use: frozenset[str]) -> WeightsRemoved:
        self.removals.append((names, in_use))
        return WeightsRemoved(removed=names, refused=())

    async def run(self) -> None:
        await asyncio.Event().wait()


class FakeShards:
    """Shards that start and stop as the test says."""

    def __init__(self) -> None:
        self.running: tuple[ShardStatus, ...] = ()
        self.started: list[tuple[ShardSpec, str | None]] = []
        self.stopped: list[tuple[str, int, str | None]] = []
        self.adopted = 0
        self.failure: Exception | None = None
        self.rings: dict[str, LogRing] = {}

    async def __aenter__(self) -> "FakeShards":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def adopt(self) -> None:
        self.adopted += 1

    async def start(self, spec: ShardSpec, key: str | None) -> None:
        if self.failure is not None:
            raise self.failure
        self.started.append((spec, key))

    async def stop(self, replica: str, rank: int, reason: str | None) -> None:
        if all((s.replica, s.rank) != (replica, rank) for s in self.running):
            raise NotFound(f"{replica}/{rank}: no such shard on this node")
        self.stopped.append((replica, rank, reason))

    def statuses(self) -> tuple[ShardStatus, ...]:
        return self.running

    def sources(self) -> tuple[str, ...]:
        return tuple(self.rings)

    def log(self, source: str, lines: int) -> tuple[str, ...]:
        return self._ring(source).tail(lines)

    def follow_log(self, source: str, follower: Callable[[str], None]) -> Callable[[], None]:
        return self._ring(source).follow(follower)

    def _ring(self, source: str) -> LogRing:
        if source not in self.rings:
            raise NotFound(f"{source}: no such shard on this node")
        return self.rings[source]


class MemoryStream:
    """The agent's side of a stream, in memory: the test says what comes and sees what went."""

    peer = "head:7442"

    def __init__(self) -> None:
        self.sent: list[AgentMessage] = []
        self.intervals: list[float] = []
        self._coming: asyncio.Queue[AgentControl | LlmgwError | None] = asyncio.Queue()

    def say(self, control: AgentControl) -> None:
        self._coming.put_nowait(control)

    def lose(self, error: LlmgwError) -> None:
        self._coming.put_nowait(error)

    def end(self) -> None:
        self._coming.put_nowait(None)

    def send(self, record: AgentMessage) -> None:
        self.sent.append(record)

    def expect_every(self, seconds: float) -> None:
        self.intervals.append(seconds)

    def __aiter__(self) -> AsyncIterator[AgentControl]:
        return self

    async def __anext__(self) -> AgentControl:
        said = await self._coming.get()
        if said is None:
            raise StopAsyncIteration
        if isinstance(said, LlmgwError):
            raise said
        return said

    def take(self) -> list[AgentMessage]:
        """Return what was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


def welcome(
    *, term: int = 1, interval: float = 5.0, settings: NodeSettings | None = None, **more: object
) -> AgentControl:
    return AgentControl(
        welcome=Welcome(
            cluster="lab",
            server="head",
            server_version="0.1.0",
            term=term,
            epoch="e1",
            heartbeat_interval=interval,
            lost_after=60.0,
            settings=settings,
            **more,  # type: ignore[arg-type]
        )
    )


class FakeAgent:
    """An agent core whose every part is in the test's hands."""

    def __init__(
        self,
        clock: Clock,
        node: str = "gpu-01",
        *,
        renewal: Renewing | None = None,
        dialer: Dialer | None = None,
    ) -> None:
        self.facts = RecordedFacts(Inventory(host=Host(hostname=node, boot_id="boot-1")))
        self.engines = FakeEngines()
        self.weights = FakeNodeWeights()
        self.shards = FakeShards()
        self.uplink = Uplink()
        self.files = MemoryFiles()
        self.ring = LogRing()
        self.changed = asyncio.Event()
        self.remembered = Remembered(REMEMBERED, "lab", self.files)
        self.dialer = dialer or Dialer(
            lambda: (),
            lambda: None,
            "agent",
            clock=clock,
            rng=random.Random(1),
            backoff=Backoff(),
            silence=20.0,
        )
        self.core = AgentCore(
            Who(
                cluster="lab",
                node=node,
                boot="b1",
                version="0.1.0",
                address="10.0.0.1",
                labels={"rack": "3"},
            ),
            Parts(
                facts=self.facts,
                engines=self.engines,
                weights=self.weights,
                shards=self.shards,
                uplink=self.uplink,
                remembered=self.remembered,
                dialer=self.dialer,
                changed=self.changed,
                ring=self.ring,
                clock=clock,
                renewal=renewal,
            ),
        )
