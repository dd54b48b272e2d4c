"""A control plane without streams or sockets, over a store in memory and a recorded fleet.

Feed, tokens, keys, catalog, settings and events are the real ones.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreachable, Unreadable
from llmgw.base.periodic import Periodic
from llmgw.control.agents import Agents
from llmgw.control.catalog import Catalog
from llmgw.control.events import Events
from llmgw.control.execute import Executor
from llmgw.control.feed import Feed
from llmgw.control.fleet import Fleet
from llmgw.control.foresight import Foresight
from llmgw.control.gateways import Gateways
from llmgw.control.hardware import Hardware
from llmgw.control.history import History
from llmgw.control.jobs import Jobs
from llmgw.control.keys import Keys
from llmgw.control.loads import Loads
from llmgw.control.membership import Membership
from llmgw.control.plane import Plane
from llmgw.control.prometheus import Prometheus
from llmgw.control.quotas import Quotas
from llmgw.control.settings import LiveSettings
from llmgw.control.tokens import Tokens
from llmgw.control.writing import Writing
from llmgw.model.catalog import CatalogEntry, Model, Profile, UrlSource
from llmgw.model.commands import LogLines, LogsRead, ReadLogs, Request
from llmgw.model.events import Event
from llmgw.model.feed import NODES, REPLICAS, ROUTES, SAMPLES
from llmgw.model.gateway import Endpoint, Gateway, ModelTraffic, Route
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job, JobPart, JobProgress, JobStep, ServeJob
from llmgw.model.keys import ROLES, JoinToken, QuotaFigures, UsageRow
from llmgw.model.node import WISHES, Node, Sample
from llmgw.model.record import Record
from llmgw.model.replica import Replica
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.planner import plan_model
from llmgw.plan.records import (
    Booking,
    Candidate,
    Desired,
    Drain,
    DrainReplica,
    Load,
    MassLoss,
    NodeRoom,
    Observed,
    Plan,
    Refusal,
    StopReplica,
    Verdict,
)
from llmgw.plan.whatif import Snapshot
from llmgw.store.interface import StoredNode
from tests.fakes.clock import FakeClock
from tests.fakes.fleets import NOW, RecordedFleet
from tests.fakes.memory_store import MemoryStore

ENGINE_KEY = "engine-key-that-never-leaves"


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


class FakeGateways:
    """Two gateways, one of them gone."""

    def __init__(self) -> None:
        self.known: tuple[Gateway, ...] = (
            Gateway(
                id="gw-1",
                connected=True,
                version="0.1.0",
                url="http://10.0.0.5:7440",
                workers=2,
                peer="10.0.0.5:51002",
                since=NOW - 3600,
            ),
            Gateway(id="gw-2", connected=False, since=NOW - 60),
        )
        self.traffic: dict[str, ModelTraffic] = {}
        self.quotas = Quotas(FakeClock())

    def all(self) -> tuple[Gateway, ...]:
        return self.known

    def traffic_by_model(self) -> dict[str, ModelTraffic]:
        return self.traffic

    async def caught_up(self) -> bool:
        return True


class FakeForesight(Foresight):
    """Foresees the same of each recorded fleet."""

    def __init__(self, plane: "FakePlane") -> None:
        self.plane = plane

    def explain(self, model: str, profile: str | None = None) -> tuple[Candidate, ...]:
        if self.plane.catalog.get(model) is None:
            raise NotFound(f"no model {model!r}")
        return tuple(a_candidate(node.id) for node in self.plane.fleet.nodes())

    def next_plan(self, *, stopped: bool | None = None) -> Plan:
        if not stopped:
            return Plan(number=13, parent=12, sentence="nothing to do: the catalog is empty")
        words = "the cluster is stopped"
        steps = tuple(
            DrainReplica(replica=one.id, words=words) for one in self.plane.fake_fleet.replicas()
        )
        return Plan(number=13, parent=12, steps=steps, sentence=f"drains all: {words}")

    async def plan_model(self, model: Model) -> ModelPlan:
        seen = self.snapshot()
        return plan_model(model, seen.desired, seen.observed, seen.now)

    def snapshot(self) -> Snapshot:
        observed = Observed(
            nodes=tuple(NodeRoom(node=one) for one in self.plane.fleet.nodes()), replicas=()
        )
        desired = Desired(
            models=self.plane.catalog.entries(), settings=self.plane.settings.current.settings
        )
        return Snapshot(
            cluster="test", version="1", at=NOW, now=0.0, desired=desired, observed=observed
        )


class FakeMembership(Membership):
    """The nodes of a recorded fleet."""

    def __init__(self, plane: "FakePlane") -> None:
        self.plane = plane

    async def set_wish(self, node: str, wish: str | None, *, actor: str) -> Node:
        if wish not in {None, *WISHES}:
            raise Unreadable(f"no such wish: {wish!r}")
        await self.plane.memory.set_wish(node, wish, actor=actor, at=self.plane.clock.now())
        known = cast("Node", self.plane.fake_fleet.node(node))
        self.plane.fake_fleet.put(NODES, node, msgspec.structs.replace(known, wish=wish))
        return cast("Node", self.plane.fake_fleet.node(node))

    async def remove(self, node: str, *, actor: str) -> None:
        await self.plane.memory.remove_node(node, actor=actor, at=self.plane.clock.now())
        self.plane.fake_fleet.put(NODES, node, None)


class FakePlane(Plane):
    """A control plane that runs nothing. Await `prepare` before it is used.

    Attributes:
        tokens_by_role: the text of one token of each role.
        key_text: the text of a user's key.
    """

    def __init__(self, recorded: RecordedFleet, clock: Clock | None = None) -> None:
        self.cluster, self.server_id, self.version = "lab", "control-1", "0.1.0"
        self.started = NOW - 7200
        self.clock = clock or FakeClock(NOW)
        self.rng = random.Random(3)
        secret = random.Random(5)
        self.memory = MemoryStore()
        self.store = self.memory
        self.feed = Feed("epoch-1", self.clock)
        self.fake_fleet = FakeFleet(self.feed, recorded)
        self.fleet = cast("Fleet", self.fake_fleet)
        self.fake_agents = FakeAgents(self.fake_fleet)
        self.agents = cast("Agents", self.fake_agents)
        self.fake_gateways = FakeGateways()
        self.gateways = cast("Gateways", self.fake_gateways)
        self.loads = Loads(self.clock)
        self.settings = LiveSettings(self.memory, self.clock, self.feed)
        self.catalog = Catalog(self.memory, self.clock, self.feed)
        self.keys = Keys(self.memory, self.clock, self.rng, secret.randbytes, self.feed)
        self.tokens = Tokens(self.memory, self.clock, self.rng, secret.randbytes)
        self.jobs = Jobs(self.memory, self.catalog, self.clock, self.rng, self.feed)
        self.writing = Writing(self.clock)
        self.events = Events(self.memory, self.clock, self.feed, self.writing)
        self.hardware = Hardware(self.memory, self.clock, self.events, self.writing)
        self.history, self.prometheus = History(length=12), Prometheus()
        self.passes = {"liveness": Periodic("liveness", lambda: 1.0, self._pass, self.clock)}
        self.last_plan = a_plan()
        self.executor = cast("Executor", FakeExecutor())
        self.foresight, self.membership = FakeForesight(self), FakeMembership(self)
        self.leading = True
        self.tokens_by_role: dict[str, str] = {}
        self.key_text = ""
        self._recorded = recorded

    async def prepare(self) -> "FakePlane":
        """Fill the store and make one token of each role."""
        for entry in self._recorded.topics.get("models", {}).values():
            model = cast("CatalogEntry", entry).model
            await self.memory.put_model(model, expected=None, actor="anna", at=NOW - 86_400)
        await self.catalog.load()
        for job in some_jobs():
            await self.memory.put_job(job)
        await self.jobs.load()
        for node in self.fake_fleet.nodes():
            self.memory.node_rows[node.id] = stored_node(node)
        for event in self._recorded.topics.get("events", {}).values():
            self.events._keep(cast("Event", event))
        for role in ROLES:
            _, text = await self.tokens.make(role, f"the {role} token", actor="anna")
            self.tokens_by_role[role] = text
        _, self.key_text = await self.keys.make(
            "batch jobs",
            actor="anna",
            models=("gemma3-270m",),
            limits=QuotaFigures(requests_per_minute=60),
        )
        await self.passes["liveness"].run_once()
        self._remember()
        await self.memory.put_hardware((a_hardware_change(),), before=0.0)
        return self

    def _remember(self) -> None:
        """Keep one step of history, the one before being a gap."""
        self.history.begin(1, NOW)
        for node in self.fake_fleet.nodes():
            sample = self.fake_fleet.sample(node.id)
            if sample is not None:
                self.history.keep(sample)
        self.history.end()

    async def _pass(self) -> str:
        return "nothing to do: every node is ready"

    @property
    def term(self) -> int:
        return 7

    def elsewhere(self) -> Refused:
        return Refused(f"{self.server_id} stands by: control-2 leads", hint="ask control-2")

    @property
    def leader(self) -> bool:
        return self.leading

    async def accept_loss(self, *, actor: str) -> None:
        self.fake_fleet.losses.now = None
        path = "reconcile.losses_accepted_before"
        await self.settings.put(path, self.clock.now(), actor=actor)

    async def usage(self, since: float, until: float) -> tuple[UsageRow, ...]:
        return await self.memory.usage(since=since, until=until)

    async def join_token(self, role: str, subject: str, *, actor: str) -> tuple[JoinToken, str]:
        if role not in {"node", "gateway"}:
            raise Unreadable(f"no such role: {role!r}", hint="roles are node, gateway")
        token = JoinToken(
            id="j1", sha256="ab" * 32, role=role, subject=subject, expires=self.clock.now() + 3600
        )
        await self.memory.put_join_token(token, actor=actor, at=self.clock.now())
        return token, f"llmgw1.{'cd' * 32}.j1.{'e' * 43}"


def a_hardware_change() -> HardwareChange:
    return HardwareChange(
        id=f"{int(NOW * 1e6) - 1:017d}",
        at=NOW - 120,
        until=NOW - 90,
        node="atlas",
        kind="xid",
        subject="GPU-3/79",
        times=2,
        total=2,
        reading=2,
        words="gpu3: XID 79 (fell off the bus) 2 times: reboot the machine",
    )


def a_candidate(node: str) -> Candidate:
    verdict = Verdict(kind="never", rule="memory", words=f"{node}: 8 GB of memory, needs 24")
    return Candidate(node=node, verdict=verdict)


def a_plan() -> Plan:
    refusal = Refusal(
        model="qwen3-32b",
        profile="default",
        candidates=(a_candidate("atlas"), a_candidate("borea")),
        words="atlas: 8 GB of memory, needs 24; borea: 8 GB of memory, needs 24",
    )
    stop = StopReplica(replica="old-000001", shards=(("atlas", 0),), words="left the catalog")
    sentence = "stops old-000001: left the catalog"
    return Plan(number=12, parent=11, steps=(stop,), refusals=(refusal,), sentence=sentence)


def some_jobs() -> tuple[Job, ...]:
    """Return a job that fetches, and one that failed."""
    source = UrlSource(url="https://example.org/qwen3-0.6b.gguf", sha256="5e" * 32)
    profiles = (Profile(engine="llamacpp", min_memory_gb=2.0),)
    fetching = JobProgress(words="downloading qwen3-0.6b.gguf", done=16_000_000, total=253_000_000)
    running = Job(
        id="job-0000m1",
        subject="qwen3-0.6b",
        actor="anna",
        created=NOW - 60,
        changed=NOW - 1,
        state="running",
        steps=(
            JobStep(name="plan", state="done", parts=(JobPart(name="atlas", state="done"),)),
            JobStep(name="check source", state="done"),
            JobStep(
                name="fetch",
                state="running",
                progress=fetching,
                parts=(JobPart(name="atlas", state="running", progress=fetching),),
            ),
            *(JobStep(name=name) for name in ("catalog", "place", "ready")),
        ),
        spec=ServeJob(model=Model(name="qwen3-0.6b", source=source, profiles=profiles)),
    )
    words = "atlas: 8 GB of memory, needs 24"
    failed = Job(
        id="job-0000m2",
        subject="qwen3-32b",
        actor="ben",
        created=NOW - 600,
        changed=NOW - 590,
        state="failed",
        reason=words,
        steps=(JobStep(name="plan", state="failed", reason=words),),
        spec=ServeJob(model=Model(name="qwen3-32b", source=source, profiles=profiles)),
    )
    return running, failed


def stored_node(node: Node) -> StoredNode:
    return StoredNode(id=node.id, first_seen=NOW - 86_400, last_seen=NOW, wish=node.wish)


def keyed_route(model: str, replica: str) -> Route:
    endpoint = Endpoint(
        replica=replica,
        node="atlas",
        host="127.0.0.1",
        port=7500,
        key=ENGINE_KEY,
        engine="llamacpp",
    )
    return Route(model=model, wanted=1, endpoints=(endpoint,))


def unreachable(node: str) -> Unreachable:
    return Unreachable(f"{node} has no stream to this control plane", hint="see whether it runs")
