"""The control plane as one object: what the admin API, the metrics and the background passes use.

A `Plane` owns no socket. `llmgw.control.server` puts the link, the admin API and the signals around
it; a test puts in-memory streams around it. Reads are plain and synchronous: they answer from the
fleet in memory. Whatever changes something durable is `async`, goes through the store, names its
actor, and marks the feed.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable
from llmgw.base.ids import crockford, replica_id
from llmgw.base.periodic import Periodic
from llmgw.control import duty
from llmgw.control.agents import Agents
from llmgw.control.catalog import Catalog
from llmgw.control.certificates import Certificates
from llmgw.control.credentials import Entropy
from llmgw.control.events import Events
from llmgw.control.execute import Executor
from llmgw.control.feed import Feed
from llmgw.control.fleet import Fleet
from llmgw.control.gateways import Gateways
from llmgw.control.greeting import Greeting
from llmgw.control.hardware import Hardware
from llmgw.control.history import History
from llmgw.control.jobs import Jobs
from llmgw.control.join import Joining
from llmgw.control.keys import Keys
from llmgw.control.leader import Leader
from llmgw.control.loads import Loads
from llmgw.control.prometheus import Prometheus
from llmgw.control.routing import Routing
from llmgw.control.settings import LiveSettings
from llmgw.control.tasks.engines import NodeSettingsPass
from llmgw.control.tasks.expire import Expire
from llmgw.control.tasks.history import KeepHistory
from llmgw.control.tasks.jobs import JobsPass, Ways
from llmgw.control.tasks.liveness import Liveness
from llmgw.control.tasks.pings import Pings
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.control.tasks.traffic import KeepTraffic
from llmgw.control.tokens import Tokens
from llmgw.control.writing import NODES, Writing
from llmgw.model.bounds import shortened
from llmgw.model.catalog import Model
from llmgw.model.events import WARNING
from llmgw.model.feed import ROUTES
from llmgw.model.gateway import Route
from llmgw.model.keys import JoinToken, UsageRow
from llmgw.model.node import WISHES, Node
from llmgw.model.record import Problem
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import engine_key
from llmgw.plan.check import check
from llmgw.plan.explain import explain
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.planner import plan_model
from llmgw.plan.records import Candidate, Desired, Observed, Plan, Want
from llmgw.plan.routes import routes
from llmgw.plan.serving.records import Seen
from llmgw.plan.whatif import Snapshot
from llmgw.store.interface import Claim, Store, StoredNode

logger = log.get(__name__)

ENGINE_KEYS = "engine-keys"
"""Name of the secret in the store from which every replica's key follows."""


@dataclass(frozen=True, slots=True)
class World:
    """What a plane takes from outside, so that a test or a simulator can hand in its own."""

    clock: Clock
    rng: random.Random
    """For ids and spreading; never for secrets."""
    entropy: Entropy
    """For secrets: `secrets.token_bytes` but in a simulator."""


class Plane:
    """One control plane: its fleet, its feed, its live settings, and what it may do with them.

    Use: `open`, then `run` in a task, then `close`.

    Args:
        store: everything durable; opened by `open` and closed by `close`.
        authority: the cluster's CA.
        world: time and randomness.
        server_id: this control plane's id.
        version: llmgw's version.
        addresses: where agents reach control planes, this one's first.

    Attributes:
        cluster: the cluster's name, from its CA.
        started: wall-clock seconds at which `open` was called.
        epoch: the feed's epoch; new with each start and each change of leader.
        fleet: what runs: nodes, samples, replicas, routes.
        feed: list, then watch.
        settings, catalog, keys, tokens, jobs, events, hardware: the live objects over the store.
        agents, gateways: the two kinds of streams.
        joining: answers the join service.
        certificates: what was signed and what is denied.
        writing: whether what happens reaches the store.
        history: the last hour of every node, in memory; prometheus: what is asked for more.
        executor: carries plans out, and remembers the last commands sent.
        passes: the background passes by name, each with its last sentence.
        last_plan: what the last reconcile pass decided; None before the first.
    """

    def __init__(
        self,
        *,
        store: Store,
        authority: Authority,
        world: World,
        server_id: str,
        version: str,
        addresses: Callable[[], tuple[str, ...]],
    ) -> None:
        clock, rng = world.clock, world.rng
        self.clock = clock
        self.rng = rng
        self.store = store
        self.authority = authority
        self.cluster = authority.cluster
        self.server_id = server_id
        self.version = version
        self.started = clock.now()
        self.epoch = crockford(rng, 12)
        self.last_plan: Plan | None = None
        self._wants: tuple[Want, ...] = ()
        self._entropy = world.entropy
        self._addresses = addresses
        self._boot = self.epoch
        self._began = False
        self._engine_secret = b""
        self.feed = Feed(self.epoch, clock)
        self._make_live_objects(world)
        self.loads = Loads(clock)
        self.fleet = self._make_fleet()
        self.history, self.prometheus = History(), Prometheus()
        self._make_streams(addresses)
        self.executor = Executor(
            self.fleet,
            self.agents,
            self.events,
            self.leadership,
            check=self._check,
            key=self.key_of,
            clock=clock,
        )
        self.passes = self._make_passes()
        self.settings.on_change(self._settings_changed)
        self.catalog.on_change(self._model_changed)
        self.jobs.on_change(self.passes["jobs"].wake)
        self.loads.on_change(self._load_changed)

    @property
    def term(self) -> int:
        """Return the term under which commands are sent."""
        return self.leadership.term

    @property
    def leader(self) -> bool:
        """Say whether this control plane leads: whether it decides and commands."""
        return self.leadership.leading

    def elsewhere(self) -> Refused:
        """Return what whoever asks a standby for a change is told: who leads."""
        return self.leadership.elsewhere()

    async def open(self) -> None:
        """Open the store, and lead, or stand by when another control plane leads.

        Raises:
            Refused: another control plane holds the store, or a newer llmgw wrote it.
            Unreachable: the store can't be opened.
        """
        self.started = self.clock.now()
        await self.store.open(self.server_id)
        await self._lead.run()
        self._began = True

    async def run(self) -> None:
        """Lead and stand by in turns, until cancelled: only who leads runs what decides."""
        await duty.run(
            self.leadership,
            self.passes,
            always={"events": self.events.write_forever},
            leading={"hardware": self.hardware.write_forever},
        )

    async def close(self) -> None:
        """Write what is left, give up the lease and let the store go; nothing may follow."""
        self.leadership.resign()
        self.feed.close()
        last = self.events.write, self.hardware.write, self.gateways.keep_traffic
        try:
            for step in (*last, self.leadership.release):
                try:
                    await step()
                except LlmgwError as error:
                    logger.warning("not written at the end", error=error.message)
        finally:
            await self.store.close()

    def key_of(self, replica: str) -> str:
        """Return the key that a replica's engine asks for. A secret."""
        return engine_key(self._engine_secret, replica)

    def desired(self) -> Desired:
        """Return what the cluster is told, at this moment."""
        return Desired(models=self.catalog.entries(), settings=self.settings.current.settings)

    def explain(self, model: str, profile: str | None = None) -> tuple[Candidate, ...]:
        """Return what placement says of each node for one more replica of a model.

        Args:
            model: its public name.
            profile: one of its profiles; None: the first.

        Raises:
            NotFound: the catalog has no such model or profile.
        """
        entry, one = self.catalog.profile(model, profile)
        now = self.clock.monotonic()
        return explain(entry, one, self.desired(), self.fleet.observed(), now)

    def next_plan(self, *, stopped: bool | None = None) -> Plan:
        """Return what the next pass would decide; nothing is done.

        Args:
            stopped: as if serving were stopped, or not; None: as it is.
        """
        return self._reconcile.preview(stopped=stopped)

    async def plan_model(self, model: Model) -> ModelPlan:
        """Return what serving a model would take; nothing is changed.

        In a thread: it makes several plans of the whole fleet, and nothing else is to wait for it.
        """
        desired, observed = self._reconcile.moment()
        now = self.clock.monotonic()
        return await asyncio.to_thread(plan_model, model, desired, observed, now)

    def snapshot(self) -> Snapshot:
        """Return the cluster at this moment: what it is told and what there is."""
        desired, observed = self._reconcile.moment()
        return Snapshot(
            cluster=self.cluster,
            version=self.version,
            at=self.clock.now(),
            now=self.clock.monotonic(),
            desired=desired,
            observed=observed,
        )

    async def usage(self, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model. Seconds since the epoch."""
        return await self.store.usage(since=since, until=until)

    async def set_wish(self, node: str, wish: str | None, *, actor: str) -> Node:
        """Cordon (`cordoned`), drain (`draining`) or release (None) a node.

        Raises:
            NotFound: no such node.
            Unreadable: no such wish.
        """
        if wish is not None and wish not in WISHES:
            raise Unreadable(
                f"no such wish: {shortened(wish, 60)!r}", hint=f"wishes are {', '.join(WISHES)}"
            )
        await self.store.set_wish(node, wish, actor=actor, at=self.clock.now())
        self.fleet.wish(node, wish)
        self.passes["reconcile"].wake()
        known = self.fleet.node(node)
        if known is None:
            raise NotFound(f"no node {node!r}")
        return known

    async def accept_loss(self, *, actor: str) -> None:
        """Take the nodes that are lost now for lost: what they ran is placed anew (LINK-6a)."""
        path = "reconcile.losses_accepted_before"
        await self.settings.put(path, self.clock.now(), actor=actor)

    async def remove_node(self, node: str, *, actor: str) -> None:
        """Forget a node: its certificates are denied and its stream is cut.

        Raises:
            NotFound: no such node and no certificate of it.
        """
        serials = await self.store.remove_node(node, actor=actor, at=self.clock.now())
        self.certificates.deny(serials)
        self.agents.cut(node, f"{node} was removed from the cluster by {actor}")
        self.fleet.remove(node)
        self.passes["reconcile"].wake()

    async def join_token(self, role: str, subject: str, *, actor: str) -> tuple[JoinToken, str]:
        """Make a one-time token for a node or a gateway; the text is shown once.

        Raises:
            Unreadable: no such role, or the subject can't be an id.
            Refused: the role does not join by token.
        """
        return await self.joining.token(role, subject, actor=actor)

    # Inside.

    def _make_live_objects(self, world: World) -> None:
        store, clock, rng, feed = self.store, world.clock, world.rng, self.feed
        self.writing = Writing(clock)
        self.events = Events(store, clock, feed, self.writing)
        self.writing.on_change(self._tell_writing)
        self.hardware = Hardware(store, clock, self.events, self.writing)
        self.settings = LiveSettings(store, clock, feed)
        self.catalog = Catalog(store, clock, feed)
        self.keys = Keys(store, clock, rng, world.entropy, feed)
        self.tokens = Tokens(store, clock, rng, world.entropy)
        self.jobs = Jobs(store, self.catalog, clock, rng, feed)
        self.leadership = Leader(store, clock, self._claim)
        self.leadership.on_won(self._won)
        self.leadership.on_lost(self._lost)
        self._lead = duty.Lead(self.leadership, self._follow, clock)
        self.certificates = Certificates(self.authority, store, clock, self.settings)
        self.joining = Joining(
            store,
            self.certificates,
            self.settings,
            self.events,
            clock=clock,
            entropy=world.entropy,
        )

    def _make_fleet(self) -> Fleet:
        return Fleet(
            self.clock,
            self.feed,
            self.events,
            settings=lambda: self.settings.current.settings,
            fingerprint=self.catalog.fingerprint,
            settled=self._settled,
            ended=self._ended,
            routing=Routing(self.feed, self._routes),
            loads=self.loads,
            hardware=self.hardware,
        )

    def _make_streams(self, addresses: Callable[[], tuple[str, ...]]) -> None:
        greeting = Greeting(
            cluster=self.cluster,
            server=self.server_id,
            version=self.version,
            epoch=lambda: self.epoch,
            addresses=addresses,
        )
        self.agents = Agents(
            self.fleet,
            self.leadership,
            self.settings,
            self.certificates,
            greeting=greeting,
            clock=self.clock,
            rng=self.rng,
            registered=self._registered,
        )
        self.gateways = Gateways(
            self.store,
            self.feed,
            self.events,
            self.leadership,
            self.settings,
            self.certificates,
            greeting=greeting,
            clock=self.clock,
            loads=self.loads,
            writing=self.writing,
        )

    def _make_passes(self) -> dict[str, Periodic]:
        self._reconcile = reconcile = Reconcile(
            self.fleet,
            self.executor,
            self.leadership,
            self.settings,
            clock=self.clock,
            desired=self.desired,
            new_id=lambda model: replica_id(model, self.rng),
            decided=self._decided,
        )
        liveness = Liveness(self.fleet, self.settings, self._keep_node, self.clock)
        engines = NodeSettingsPass(self.agents)
        expire = Expire(self.fleet, self.keys, self.tokens, self.settings, self.clock)
        pings = Pings(self.gateways, self.settings)
        traffic = KeepTraffic(self.gateways)
        history = KeepHistory(self.fleet, self.history, self.clock)
        jobs = self._make_jobs_pass()
        return {
            duty.LEADER: Periodic(duty.LEADER, self._lead.period, self._lead.run, self.clock),
            "reconcile": Periodic("reconcile", reconcile.period, reconcile.run, self.clock),
            "liveness": Periodic("liveness", liveness.period, liveness.run, self.clock),
            "engines": Periodic("engines", engines.period, engines.run, self.clock),
            "expire": Periodic("expire", expire.period, expire.run, self.clock),
            "pings": Periodic("pings", pings.period, pings.run, self.clock),
            "traffic": Periodic("traffic", traffic.period, traffic.run, self.clock),
            "history": Periodic("history", history.period, history.run, self.clock),
            "jobs": Periodic("jobs", jobs.period, jobs.run, self.clock),
        }

    def _make_jobs_pass(self) -> JobsPass:
        ways = Ways(look=self._seen_by_job, plan=self.plan_model, forgive=self._model_changed)
        return JobsPass(
            self.jobs,
            self.fleet,
            self.agents,
            self.catalog,
            self.leadership,
            clock=self.clock,
            ways=ways,
        )

    def _claim(self) -> Claim:
        return Claim(server=self.server_id, boot=self._boot, addresses=self._addresses())

    async def _won(self) -> None:
        """Begin as a leader: know what the store says and nothing else (invariant 2)."""
        if self._began:
            self._new_epoch()
        await self._load()
        self.loads.forget()
        await self.gateways.load()
        await self.events.load()
        await self.hardware.load()
        await self.jobs.load()
        await self._load_nodes()
        self.last_plan, self._wants = None, ()
        self.events.add("server", self.server_id, f"{self.server_id} leads under term {self.term}")

    def _lost(self, why: str) -> None:
        """Stand by: whoever is connected here is told to find the leader."""
        goodbye = self.leadership.goodbye()
        self.agents.turn_away(goodbye)
        self.gateways.turn_away(goodbye)
        self._new_epoch()
        words = f"{self.server_id} does not lead any more: {why}"
        self.events.add("server", self.server_id, words, severity=WARNING)

    async def _follow(self, nodes_too: bool) -> None:
        """Read what a standby answers from."""
        await self._load()
        if nodes_too:
            await self.events.load()
            await self.jobs.load()
            await self._load_nodes()

    async def _load(self) -> None:
        self._engine_secret = await self.store.secret(ENGINE_KEYS, self._entropy(32))
        await self.settings.load()
        await self.catalog.load()
        await self.keys.load()
        await self.tokens.load()
        await self.certificates.load()

    async def _load_nodes(self) -> None:
        self.fleet.load(await self.store.nodes())

    def _new_epoch(self) -> None:
        self.epoch = crockford(self.rng, 12)
        self.feed.renew(self.epoch)

    def _settled(self, waiting_for: tuple[str, ...]) -> bool:
        settling = self.settings.current.settings.reconcile.settling
        return self.leadership.settled(waiting_for, settling)

    def _seen_by_job(self, model: str) -> Seen:
        """Return the fleet as a job that serves a model looks at it."""
        waiting_for = self.fleet.waiting_for()
        return Seen(
            settled=self._settled(waiting_for),
            waiting_for=waiting_for,
            stopped=self.settings.current.settings.serving.stopped,
            entry=self.catalog.get(model),
            replicas=self.fleet.replicas(),
            refusals=self.last_plan.refusals if self.last_plan is not None else (),
            failures=self.fleet.shards.failures.all(),
        )

    def _check(self, plan: Plan, observed: Observed) -> tuple[Problem, ...]:
        return check(plan, self.desired(), observed)

    def _routes(self) -> tuple[Route, ...]:
        return routes(
            self.fleet.replicas(),
            self.fleet.nodes(),
            self.catalog.entries(),
            self.settings.current.settings,
            key=self.key_of,
            refusals=self.last_plan.refusals if self.last_plan is not None else (),
            wants=self._wants,
        )

    def _decided(self, plan: Plan, desired: Desired) -> None:
        before, self.last_plan = self.last_plan, plan
        scaled, self._wants = self._wants, desired.wants
        if before is None or before.refusals != plan.refusals or scaled != self._wants:
            self.feed.touch(ROUTES)

    def _settings_changed(self) -> None:
        self.feed.touch(ROUTES)
        for name in ("reconcile", "liveness", "engines", "pings"):
            self.passes[name].wake()

    def _ended(self) -> None:
        """Have a replica that ended by itself started again at once."""
        self.passes["reconcile"].wake()

    def _load_changed(self) -> None:
        left = self.loads.in_flight() or {}
        done = any(not one.told and not left.get(one.replica) for one in self.fleet.drains())
        if done or self.loads.queued():
            self.passes["reconcile"].wake()

    def _model_changed(self, model: str) -> None:
        self.fleet.shards.catalog_changed(model)
        self.passes["reconcile"].wake()

    async def _registered(self, node: str) -> None:
        """Keep a node that registered; a store that is away must not keep it out."""
        self.passes["reconcile"].wake()
        known = self.fleet.node(node)
        if known is not None:
            await self._keep_node(known)

    async def _keep_node(self, node: Node) -> None:
        heard = self.fleet.last_heard(node.id)
        if heard is None or self.fleet.node(node.id) is None:
            return
        stored = StoredNode(id=node.id, first_seen=heard, last_seen=heard, wish=node.wish)
        try:
            await self.store.put_node(stored)
        except LlmgwError as error:
            logger.warning("node not stored", node=node.id, error=error.message)
            self.writing.failed(NODES, error)
        else:
            self.writing.done(NODES)

    def _tell_writing(self, severity: str, words: str) -> None:
        self.events.add("server", self.server_id, words, severity=severity)
