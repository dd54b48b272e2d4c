"""The control plane as one object: what the admin API, the metrics and the background passes use.

A `Plane` owns no socket. `llmgw.control.server` puts the link, the admin API and the signals around
it; a test puts in-memory streams around it. Reads are plain and synchronous: they answer from the
fleet in memory. Whatever changes something durable is `async`, goes through the store, names its
actor, and marks the feed.
"""

from collections.abc import Callable

from llmgw.base import log
from llmgw.base.errors import LlmgwError, Refused
from llmgw.base.ids import crockford, replica_id
from llmgw.control import duty
from llmgw.control.agents import Agents
from llmgw.control.catalog import Catalog
from llmgw.control.certificates import Certificates
from llmgw.control.decisions import Decisions
from llmgw.control.engine_keys import EngineKeys
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
from llmgw.control.passes import background
from llmgw.control.prometheus import Prometheus
from llmgw.control.rates import Rates
from llmgw.control.routing import Routing
from llmgw.control.settings import LiveSettings
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.control.tenure import Readings, Tenure
from llmgw.control.tokens import Tokens
from llmgw.control.world import World
from llmgw.control.writing import Writing
from llmgw.model.feed import ROUTES
from llmgw.model.keys import JoinToken, UsageRow
from llmgw.model.link import Goodbye
from llmgw.pki.authority import Authority
from llmgw.plan.records import Desired, Plan
from llmgw.store.interface import Claim, Store

logger = log.get(__name__)


class Plane:
    """One control plane: its fleet, its feed, its live settings, and what it may do with them.

    Use: `open`, then `run` in a task, then `close`.

    Args:
        store: everything durable; opened by `open` and closed by `close`.
        authority: the cluster's CA.
        world: time and randomness.
        server_id, version: this control plane's.
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
        foresight: what would be decided; decisions: what was.
        joining: answers the join service.
        certificates: what was signed and what is denied.
        writing: whether what happens reaches the store.
        history: the last hour of every node, in memory; prometheus: what is asked for more.
        rates: how requests went in the last hour, in memory.
        executor: carries plans out, and remembers the last commands sent.
        passes: the background passes by name, each with its last sentence.
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
        self._addresses = addresses
        self._boot = crockford(rng, 12)
        self.feed = Feed(self._boot, clock)
        self._make_live_objects(world)
        self.loads = Loads(clock)
        self.decisions = Decisions(self.feed, self.catalog, self.settings, key=self.key_of)
        self.fleet = self._make_fleet()
        self.job_view = JobView(
            self.fleet, self.catalog, self.settings, self.decisions, settled=self._settled
        )
        self.history, self.prometheus, self.rates = History(), Prometheus(), Rates()
        self._make_streams(addresses)
        self.executor = Executor(
            self.fleet,
            self.agents,
            self.events,
            self.leadership,
            check=self.decisions.check,
            key=self.key_of,
            clock=clock,
            on_drain=self._ask_gateways,
        )
        self.tenure = self._make_tenure()
        self._lead = duty.Lead(self.leadership, self.tenure.follow, clock)
        reconcile = self._make_reconcile()
        self.foresight = Foresight(
            self.cluster,
            version,
            catalog=self.catalog,
            fleet=self.fleet,
            reconcile=reconcile,
            clock=clock,
        )
        self.passes = background(
            self,
            self._lead,
            reconcile,
            store_away=self._store_away,
            model_changed=self._model_changed,
        )
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

    @property
    def last_plan(self) -> Plan | None:
        """Return what the last reconcile pass decided; None before the first."""
        return self.decisions.last

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
        return self._engine_keys.of(replica)

    def desired(self) -> Desired:
        """Return what the cluster is told, at this moment."""
        return self.decisions.desired()

    async def usage(self, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model. Seconds since the epoch."""
        return await self.store.usage(since=since, until=until)

    async def accept_loss(self, *, actor: str) -> None:
        """Take the nodes that are lost now for lost: what they ran is placed anew (LINK-6a)."""
        at = self.clock.now()
        await self.settings.put("reconcile.losses_accepted_before", at, actor=actor)

    async def join_token(self, role: str, subject: str, *, actor: str) -> tuple[JoinToken, str]:
        """Make a one-time token for a node or a gateway; the text is shown once.

        Raises:
            Unreadable: no such role, or the subject can't be an id.
            Refused: the role does not join by token.
        """
        return await self.joining.token(role, subject, actor=actor)

    # Inside.

    def _make_live_objects(self, world: World) -> None:
        store, clock, rng, feed = self.store, self.clock, self.rng, self.feed
        self.writing = Writing(clock)
        self.events = Events(store, clock, feed, self.writing)
        self.writing.on_change(self._tell_writing)
        self.hardware = Hardware(store, clock, self.events, self.writing)
        self.settings = LiveSettings(store, clock, feed)
        self.catalog = Catalog(store, clock, feed)
        self.keys = Keys(store, clock, rng, world.entropy, feed)
        self.tokens = Tokens(store, clock, rng, world.entropy)
        self.jobs = Jobs(store, self.catalog, clock, rng, feed)
        self._engine_keys = EngineKeys(store, world.entropy)
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
            routing=Routing(self.feed, lambda: self.decisions.routes(self.fleet)),
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
                    self._engine_keys.load,
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

    def _make_reconcile(self) -> Reconcile:
        return Reconcile(
            self.fleet,
            self.executor,
            self.leadership,
            self.settings,
            clock=self.clock,
            desired=self.desired,
            new_id=lambda model: replica_id(model, self.rng),
            decided=self.decisions.decided,
        )

    def _store_away(self) -> bool:
        """Say whether the store did not answer when the lease or a record was last written."""
        kept = self.passes[duty.LEADER].last
        return (kept is not None and kept.error is not None) or any(self.writing.failing().values())

    def _claim(self) -> Claim:
        return Claim(server=self.server_id, boot=self._boot, addresses=self._addresses())

    def _forget(self) -> None:
        self.loads.forget()
        self.gateways.quotas.forget()
        self.gateways.key_uses.forget()
        self.rates.forget()
        self.decisions.forget()

    def _turn_away(self, goodbye: Goodbye) -> None:
        self.agents.turn_away(goodbye)
        self.gateways.turn_away(goodbye)

    async def _registered(self, node: str) -> None:
        await self.membership.registered(node)

    def _settled(self, waiting_for: tuple[str, ...]) -> bool:
        settling = self.settings.current.settings.reconcile.settling
        return self.leadership.settled(waiting_for, settling)

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
