"""The control plane as one object: what the admin API, the metrics and the background passes use.

A `Plane` owns no socket. `llmgw.control.server` puts the link, the admin API and the signals around
it; a test puts in-memory streams around it. Reads are plain and synchronous: they answer from the
fleet in memory. Whatever changes something durable is `async`, goes through the store, names its
actor, and marks the feed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
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
from llmgw.control.foresight import Foresight
from llmgw.control.gateways import Gateways
from llmgw.control.greeting import Greeting
from llmgw.control.hardware import Hardware
from llmgw.control.history import History
from llmgw.control.job_view import JobView
from llmgw.control.jobs import Jobs
from llmgw.control.join import Joining
from llmgw.control.keys import Keys
from llmgw.control.leader import Leader
from llmgw.control.loads import Loads
from llmgw.control.membership import Membership
from llmgw.control.prometheus import Prometheus
from llmgw.control.routing import Routing
from llmgw.control.settings import LiveSettings
from llmgw.control.tasks.engine_loads import TellEngineLoads
from llmgw.control.tasks.engines import NodeSettingsPass
from llmgw.control.tasks.expire import Expire
from llmgw.control.tasks.history import KeepHistory
from llmgw.control.tasks.jobs import JobsPass, Ways
from llmgw.control.tasks.liveness import Liveness
from llmgw.control.tasks.pings import Pings
from llmgw.control.tasks.quotas import LendQuotas
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.control.tasks.traffic import KeepTraffic
from llmgw.control.tenure import Readings, Tenure
from llmgw.control.tokens import Tokens
from llmgw.control.writing import Writing
from llmgw.model.feed import ROUTES
from llmgw.model.gateway import Route
from llmgw.model.keys import JoinToken, UsageRow
from llmgw.model.link import Goodbye
from llmgw.model.record import Problem
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import engine_key
from llmgw.plan.check import check
from llmgw.plan.records import Desired, Observed, Plan, Want
from llmgw.plan.routes import routes
from llmgw.store.interface import Claim, Store

logger = log.get(__name__)

ENGINE_KEYS = "engine-keys"
"""Name of the secret in the store from which every replica's key follows."""


class _Pass(Protocol):
    """What runs again and again."""

    def period(self) -> float: ...

    async def run(self) -> str: ...


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
        fleet: what runs: nodes, samples, replicas, routes.
        feed: list, then watch.
        settings, catalog, keys, tokens, jobs, events, hardware: the live objects over the store.
        agents, gateways: the two kinds of streams.
        tenure: what begins and ends with leadership.
        membership: the nodes of the cluster, and what is wished of each.
        foresight: what would be decided.
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
        self.last_plan: Plan | None = None
        self._wants: tuple[Want, ...] = ()
        self._entropy = world.entropy
        self._addresses = addresses
        self._engine_secret = b""
        self._boot = crockford(rng, 12)
        self.feed = Feed(self._boot, clock)
        self._make_live_objects(world)
        self.loads = Loads(clock)
        self.fleet = self._make_fleet()
        self.job_view = JobView(self.fleet, self.catalog, self.settings, settled=self._settled)
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
            on_drain=self._ask_gateways,
        )
        self.tenure = self._make_tenure()
        self._lead = duty.Lead(self.leadership, self.tenure.follow, clock)
        self.passes = self._make_passes()
        self.settings.on_change(self._settings_changed)
        self.catalog.on_change(self._model_changed)
        self.jobs.on_change(self.passes["jobs"].wake)
        self.loads.on_change(self._load_changed)

    @property
    def epoch(self) -> str:
        """Return the feed's epoch: new with each start and each change of leader."""
        return self.feed.epoch

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
        self.tenure.opened = True

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

    async def usage(self, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model. Seconds since the epoch."""
        return await self.store.usage(since=since, until=until)

    async def accept_loss(self, *, actor: str) -> None:
        """Take the nodes that are lost now for lost: what they ran is placed anew (LINK-6a)."""
        path = "reconcile.losses_accepted_before"
        await self.settings.put(path, self.clock.now(), actor=actor)

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
            ended=self._plan_anew,
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
        self.membership = Membership(
            self.store,
            self.fleet,
            self.agents,
            self.certificates,
            writing=self.writing,
            clock=self.clock,
            changed=self._plan_anew,
        )

    def _make_tenure(self) -> Tenure:
        return Tenure(
            self.server_id,
            self.leadership,
            self.feed,
            self.events,
            self.rng,
            readings=Readings(
                always=(
                    self._read_engine_secret,
                    self.settings.load,
                    self.catalog.load,
                    self.keys.load,
                    self.tokens.load,
                    self.certificates.load,
                ),
                leading=(self.gateways.load, self.hardware.load),
                now_and_then=(self.events.load, self.jobs.load, self.membership.load),
            ),
            forget=self._forget,
            turn_away=self._turn_away,
        )

    def _make_passes(self) -> dict[str, Periodic]:
        clock, settings = self.clock, self.settings
        reconcile = Reconcile(
            self.fleet,
            self.executor,
            self.leadership,
            settings,
            clock=clock,
            desired=self.desired,
            new_id=lambda model: replica_id(model, self.rng),
            decided=self._decided,
        )
        self.foresight = Foresight(
            self.cluster,
            self.version,
            catalog=self.catalog,
            fleet=self.fleet,
            reconcile=reconcile,
            clock=clock,
        )
        passes: dict[str, _Pass] = {
            duty.LEADER: self._lead,
            "reconcile": reconcile,
            "liveness": Liveness(self.fleet, settings, self.membership.keep, clock),
            "engines": NodeSettingsPass(self.agents),
            "expire": Expire(self.fleet, self.keys, self.tokens, settings, clock),
            "pings": Pings(self.gateways, settings, self.fleet.drains),
            "engine-loads": TellEngineLoads(self.gateways, self.fleet.loads, settings),
            "quotas": LendQuotas(self.gateways, self.keys, self._store_away),
            "traffic": KeepTraffic(self.gateways),
            "history": KeepHistory(self.fleet, self.history, clock),
            "jobs": self._make_jobs_pass(),
        }
        return {name: Periodic(name, one.period, one.run, clock) for name, one in passes.items()}

    def _make_jobs_pass(self) -> JobsPass:
        ways = Ways(self.job_view.look, self._model_changed, self.foresight)
        return JobsPass(
            self.jobs,
            self.fleet,
            self.agents,
            self.catalog,
            self.leadership,
            clock=self.clock,
            ways=ways,
        )

    def _store_away(self) -> bool:
        """Say whether the store did not answer when the lease or a record was last written."""
        kept = self.passes[duty.LEADER].last
        return (kept is not None and kept.error is not None) or any(self.writing.failing().values())

    def _claim(self) -> Claim:
        return Claim(server=self.server_id, boot=self._boot, addresses=self._addresses())

    async def _read_engine_secret(self) -> None:
        self._engine_secret = await self.store.secret(ENGINE_KEYS, self._entropy(32))

    def _forget(self) -> None:
        self.loads.forget()
        self.gateways.quotas.forget()
        self.last_plan, self._wants = None, ()
        self.job_view.forget()

    def _turn_away(self, goodbye: Goodbye) -> None:
        self.agents.turn_away(goodbye)
        self.gateways.turn_away(goodbye)

    async def _registered(self, node: str) -> None:
        await self.membership.registered(node)

    def _settled(self, waiting_for: tuple[str, ...]) -> bool:
        settling = self.settings.current.settings.reconcile.settling
        return self.leadership.settled(waiting_for, settling)

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
        self.job_view.decided(plan, desired)
        before, self.last_plan = self.last_plan, plan
        scaled, self._wants = self._wants, desired.wants
        if before is None or before.refusals != plan.refusals or scaled != self._wants:
            self.feed.touch(ROUTES)

    def _settings_changed(self) -> None:
        self.feed.touch(ROUTES)
        for name in ("reconcile", "liveness", "engines", "pings"):
            self.passes[name].wake()

    def _plan_anew(self) -> None:
        """Have what changed answered at once: a replica that ended by itself started again."""
        self.passes["reconcile"].wake()

    def _ask_gateways(self) -> None:
        """Have gateways say soon that they have left what is given up now."""
        self.passes["pings"].wake()

    def _load_changed(self) -> None:
        left = self.loads.in_flight() or {}
        done = any(not one.told and not left.get(one.replica) for one in self.fleet.drains())
        if done or self.loads.queued():
            self._plan_anew()

    def _model_changed(self, model: str) -> None:
        self.fleet.shards.catalog_changed(model)
        self._plan_anew()

    def _tell_writing(self, severity: str, words: str) -> None:
        self.events.add("server", self.server_id, words, severity=severity)
