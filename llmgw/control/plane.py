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
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.ids import crockford, replica_id
from llmgw.base.periodic import Periodic
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
from llmgw.control.join import Joining
from llmgw.control.keys import Keys
from llmgw.control.leader import Leader
from llmgw.control.prometheus import Prometheus
from llmgw.control.routing import Routing
from llmgw.control.settings import LiveSettings
from llmgw.control.tasks.engines import NodeSettingsPass
from llmgw.control.tasks.expire import Expire
from llmgw.control.tasks.history import KeepHistory
from llmgw.control.tasks.liveness import Liveness
from llmgw.control.tasks.pings import Pings
from llmgw.control.tasks.reconcile import Reconcile
from llmgw.control.tasks.traffic import KeepTraffic
from llmgw.control.tokens import Tokens
from llmgw.model.feed import ROUTES
from llmgw.model.gateway import Route
from llmgw.model.keys import JoinToken, UsageRow
from llmgw.model.node import WISHES, Node
from llmgw.model.record import Problem
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import engine_key
from llmgw.plan.check import check
from llmgw.plan.explain import explain
from llmgw.plan.records import Candidate, Desired, Observed, Plan
from llmgw.plan.routes import routes
from llmgw.store.interface import Store, StoredNode

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
        epoch: the feed's epoch; new with each start.
        fleet: what runs: nodes, samples, replicas, routes.
        feed: list, then watch.
        settings, catalog, keys, tokens, events, hardware: the live objects over the store.
        agents, gateways: the two kinds of streams.
        joining: answers the join service.
        certificates: what was signed and what is denied.
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
        self._entropy = world.entropy
        self._engine_secret = b""
        self.feed = Feed(self.epoch, clock)
        self._make_live_objects(world)
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

    @property
    def term(self) -> int:
        """Return the term under which commands are sent."""
        return self.leadership.term

    @property
    def leader(self) -> bool:
        """Say whether this control plane leads: whether it decides and commands."""
        return self.leadership.leading

    async def open(self) -> None:
        """Take the store, raise the term, and load what is durable.

        Raises:
            Refused: another control plane holds the store, or a newer llmgw wrote it.
            Unreachable: the store can't be opened.
        """
        self.started = self.clock.now()
        await self.leadership.take()
        self._engine_secret = await self.store.secret(ENGINE_KEYS, self._entropy(32))
        await self.settings.load()
        await self.catalog.load()
        await self.keys.load()
        await self.tokens.load()
        await self.certificates.load()
        await self.gateways.load()
        await self.events.load()
        await self.hardware.load()
        self.fleet.load(await self.store.nodes())
        self.events.add("server", self.server_id, f"{self.server_id} leads under term {self.term}")

    async def run(self) -> None:
        """Run the background passes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.events.write_forever(), name="events")
            group.create_task(self.hardware.write_forever(), name="hardware")
            for name, one in self.passes.items():
                group.create_task(one.run_forever(), name=name)

    async def close(self) -> None:
        """Write what is left and let the store go; nothing may be called afterwards."""
        self.leadership.resign()
        self.feed.close()
        try:
            await self.events.write()
            await self.hardware.write()
            await self.gateways.keep_traffic()
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
            raise Unreadable(f"no such wish: {wish!r}", hint=f"wishes are {', '.join(WISHES)}")
        await self.store.set_wish(node, wish, actor=actor, at=self.clock.now())
        self.fleet.wish(node, wish)
        self.passes["reconcile"].wake()
        known = self.fleet.node(node)
        if known is None:
            raise NotFound(f"no node {node!r}")
        return known

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
        self.events = Events(store, clock, feed)
        self.hardware = Hardware(store, clock, self.events)
        self.settings = LiveSettings(store, clock, feed)
        self.catalog = Catalog(store, clock, feed)
        self.keys = Keys(store, clock, rng, world.entropy, feed)
        self.tokens = Tokens(store, clock, rng, world.entropy)
        self.leadership = Leader(store, clock, self.server_id)
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
            link=lambda: self.settings.current.settings.link,
            fingerprint=self.catalog.fingerprint,
            settled=self._settled,
            routing=Routing(self.feed, self._routes),
            hardware=self.hardware,
        )

    def _make_streams(self, addresses: Callable[[], tuple[str, ...]]) -> None:
        greeting = Greeting(
            cluster=self.cluster,
            server=self.server_id,
            version=self.version,
            epoch=self.epoch,
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
        )

    def _make_passes(self) -> dict[str, Periodic]:
        reconcile = Reconcile(
            self.fleet,
            self.executor,
            self.leadership,
            self.settings,
            clock=self.clock,
            desired=self.desired,
            new_id=lambda model: replica_id(model, self.rng),
            decided=self._decided,
        )
        liveness = Liveness(self.fleet, self.settings, self._keep_node)
        engines = NodeSettingsPass(self.agents)
        expire = Expire(self.fleet, self.keys, self.tokens, self.settings, self.clock)
        pings = Pings(self.gateways, self.settings)
        traffic = KeepTraffic(self.gateways)
        history = KeepHistory(self.fleet, self.history, self.clock)
        return {
            "reconcile": Periodic("reconcile", reconcile.period, reconcile.run, self.clock),
            "liveness": Periodic("liveness", liveness.period, liveness.run, self.clock),
            "engines": Periodic("engines", engines.period, engines.run, self.clock),
            "expire": Periodic("expire", expire.period, expire.run, self.clock),
            "pings": Periodic("pings", pings.period, pings.run, self.clock),
            "traffic": Periodic("traffic", traffic.period, traffic.run, self.clock),
            "history": Periodic("history", history.period, history.run, self.clock),
        }

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
        )

    def _decided(self, plan: Plan) -> None:
        before, self.last_plan = self.last_plan, plan
        if before is None or before.refusals != plan.refusals:
            self.feed.touch(ROUTES)

    def _settings_changed(self) -> None:
        self.feed.touch(ROUTES)
        for name in ("reconcile", "liveness", "engines", "pings"):
            self.passes[name].wake()

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
