"""A control plane without streams or sockets, over a store in memory and a recorded fleet.

Feed, tokens, keys, catalog, settings and events are the real ones.
"""

import random
from typing import cast

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.base.periodic import Periodic
from llmgw.control.agents import Agents
from llmgw.control.catalog import Catalog
from llmgw.control.decisions import Decisions
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
from llmgw.control.rates import Rates
from llmgw.control.settings import LiveSettings
from llmgw.control.tokens import Tokens
from llmgw.control.writing import Writing
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import Event
from llmgw.model.feed import NODES
from llmgw.model.gateway import TrafficReport
from llmgw.model.keys import ROLES, JoinToken, QuotaFigures, UsageRow
from llmgw.model.node import WISHES, Node
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.planner import plan_model
from llmgw.plan.records import Candidate, Desired, DrainReplica, NodeRoom, Observed, Plan
from llmgw.plan.whatif import Snapshot
from tests.fakes import flows
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW, RecordedFleet
from tests.fakes.memory_store import MemoryStore
from tests.fakes.plane_fleet import FakeAgents, FakeExecutor, FakeFleet, stored_node
from tests.fakes.plane_gateways import FakeGateways
from tests.fakes.plane_records import ENGINE_KEY, a_candidate, a_hardware_change, a_plan, some_jobs


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
        self.rates = Rates(length=12)
        self.passes = {"liveness": Periodic("liveness", lambda: 1.0, self._pass, self.clock)}
        self.decisions = Decisions(self.feed, self.catalog, self.settings, key=lambda _: ENGINE_KEY)
        self.decisions.last = a_plan()
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
        for times, ago in ((1, 60.0), (2, 40.0), (4, 20.0)):
            now = self.clock.monotonic() - ago
            models = (flows.counted(times), flows.unknown(1))
            report = TrafficReport(gateway="gw-1", boot="b", worker=0, models=models)
            self.rates.step(
                (report,), self.fake_gateways.queues(), monotonic=now, at=self.clock.now() - ago
            )

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
