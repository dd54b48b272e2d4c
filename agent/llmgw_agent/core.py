"""An agent whose surroundings are handed in, so that many of them fit one process."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.log import LogRing, get
from llmgw.link.dial import Dialer
from llmgw.model.link import Goodbye, Welcome
from llmgw.model.node import Heartbeat, InstalledEngine, Inventory, Register, WeightsHeld
from llmgw.model.settings import EngineOrder, NodeSettings
from llmgw.model.shard import ShardStatus
from llmgw_agent.commands import FEATURES, Commands, HeldWeights, Shards
from llmgw_agent.host.patience import done_within
from llmgw_agent.logs import Logs
from llmgw_agent.probe.facts import Facts
from llmgw_agent.remembered import Remembered
from llmgw_agent.stream import Renewing, Session, UpStream
from llmgw_agent.uplink import Uplink

log = get(__name__)

DEFAULT_INTERVAL = 5.0
FIRST_LOOK = 3.0
"""Seconds that the first register waits for probes: a driver that hangs must not hide a node."""


class Engines(Protocol):
    """The engines on this node; `engines.programs.Programs` is one."""

    @property
    def probed(self) -> bool:
        """Return whether anybody looked yet."""
        ...

    def installed(self) -> tuple[InstalledEngine, ...]:
        """Return what is there, on its way, or failed."""
        ...

    def can_install(self) -> tuple[str, ...]:
        """Return what this agent could install."""
        ...

    def order(self, orders: dict[str, EngineOrder]) -> None:
        """Take what every node shall have."""
        ...

    async def run(self) -> None:
        """Converge until cancelled."""
        ...


class NodeWeights(HeldWeights, Protocol):
    """The weights on this node; `weights.fetch.Weights` is one."""

    def held(self) -> tuple[WeightsHeld, ...] | None:
        """Return what is held; None before the first look."""
        ...

    def fingerprint(self) -> str | None:
        """Return a hash of what is held; None before the first look."""
        ...

    async def run(self) -> None:
        """Look and fetch until cancelled."""
        ...


class NodeShards(Shards, AbstractAsyncContextManager["NodeShards"], Protocol):
    """The shards on this node; `supervise.supervisor.Supervisor` is one."""

    async def adopt(self) -> None:
        """Take over what a former agent left."""
        ...


@dataclass(frozen=True, slots=True)
class Who:
    """Who an agent is."""

    cluster: str
    node: str
    boot: str
    """Random, new with each start of the agent."""
    version: str
    address: str
    """Where engines on this node are reached."""
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of."""

    facts: Facts
    engines: Engines
    weights: NodeWeights
    shards: NodeShards
    uplink: Uplink
    """Where `shards` tells its transitions."""
    remembered: Remembered
    dialer: Dialer
    changed: asyncio.Event
    """Set by any part when the inventory changed."""
    ring: LogRing
    clock: Clock
    renewal: Renewing | None = None


class AgentCore:
    """One agent: its parts run, and one stream after the other to a control plane."""

    def __init__(self, who: Who, parts: Parts) -> None:
        self._who = who
        self._parts = parts
        self._sequence = 0
        self._interval = DEFAULT_INTERVAL
        self._leader: str | None = None
        self._refused: str | None = None
        logs = Logs(parts.ring, parts.shards)
        self._logs = logs
        self._commands = Commands(
            who.version, parts.remembered, parts.shards, parts.weights, logs, self.apply
        )
        known = parts.remembered.settings
        if known is not None:
            self.apply(known)

    async def run(self) -> None:
        """Be an agent until the dialer is stopped; engines go on after that."""
        parts = self._parts
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(parts.weights.run()),
                group.create_task(parts.engines.run()),
            ]
            # Left before the weights are: a fetch that is broken off is no failure of a shard.
            async with parts.shards:
                # Before anything is asked: what runs here already must not be started again.
                await parts.shards.adopt()
                await self._first_look()
                running.append(group.create_task(parts.facts.run()))
                await parts.dialer.run(self.session)
            for task in running:
                task.cancel()

    async def session(self, stream: UpStream) -> float | None:
        """Serve one stream; return the seconds that a goodbye asks to wait."""
        parts = self._parts
        session = Session(
            stream,
            self,
            parts.uplink,
            self._commands,
            self._logs,
            parts.clock,
            renewal=parts.renewal,
            changed=parts.changed,
        )
        return await session.run()

    def leader(self) -> str | None:
        """Return the address of the leader that a standby named last."""
        return self._leader

    # What a session tells.

    def register(self) -> Register:
        """Return everything there is to know now, shards apart."""
        parts, who = self._parts, self._who
        inventory = msgspec.structs.replace(
            self.inventory(),
            filesystems=parts.facts.inventory().filesystems,
            weights=parts.weights.held(),
        )
        settings = parts.remembered.settings
        return Register(
            node=who.node,
            agent_version=who.version,
            boot=who.boot,
            machine=None if inventory.host is None else inventory.host.boot_id,
            address=who.address,
            features=FEATURES,
            labels=who.labels,
            highest_term=parts.remembered.term,
            settings_version=None if settings is None else settings.version,
            inventory=inventory,
        )

    def inventory(self) -> Inventory:
        """Return what the node has now, but for what heartbeats carry."""
        engines = self._parts.engines
        return msgspec.structs.replace(
            self._parts.facts.inventory(),
            engines=engines.installed(),
            engines_probed=engines.probed,
            can_install=engines.can_install(),
        )

    def heartbeat(self) -> Heartbeat:
        """Return what changes, without the list of weights."""
        self._sequence += 1
        heartbeat = self._parts.facts.heartbeat(self._sequence, self._parts.clock.now())
        return msgspec.structs.replace(heartbeat, weights_print=self._parts.weights.fingerprint())

    def weights(self) -> tuple[WeightsHeld, ...] | None:
        """Return the weights held; None: not looked yet."""
        return self._parts.weights.held()

    def running(self) -> tuple[ShardStatus, ...]:
        """Return the shards that run, with whole specs."""
        return self._parts.shards.statuses()

    def interval(self) -> float:
        """Return the seconds between two heartbeats."""
        return self._interval

    # What a session hears.

    def welcomed(self, welcome: Welcome) -> None:
        """Take term, settings and addresses: those of the newest welcome are in force."""
        remembered = self._parts.remembered
        if welcome.term < remembered.term:
            log.warning("welcome of an older term", term=welcome.term, highest=remembered.term)
        remembered.saw_term(welcome.term)
        self._leader = self._refused = None
        if welcome.control_planes:
            remembered.take_control_planes(welcome.control_planes)
        self._interval = welcome.heartbeat_interval
        if welcome.settings is not None:
            self.apply(welcome.settings)

    def goodbye(self, goodbye: Goodbye) -> None:
        """Note why the control plane closes, and who leads."""
        if goodbye.reason != self._refused:
            # One that is refused tries again and again; it is told once.
            log.warning("the control plane closes the stream", reason=goodbye.reason)
        self._refused = goodbye.reason
        self._leader = goodbye.leader

    def apply(self, settings: NodeSettings) -> None:
        """Take settings, now and for the next start."""
        whole = self._parts.remembered.take_settings(settings)
        if whole.heartbeat_interval is not None:
            self._interval = whole.heartbeat_interval
        if whole.engines is not None:
            self._parts.engines.order(whole.engines)
        if whole.reconnect_within is not None:
            self._parts.dialer.try_within(whole.reconnect_within)
        self._parts.changed.set()

    async def _first_look(self) -> None:
        looking = asyncio.ensure_future(self._parts.facts.first_look())
        try:
            if not await done_within(self._parts.clock, looking, FIRST_LOOK):
                log.warning("some probe does not answer; registering without it")
        finally:
            looking.cancel()


def addresses(
    configured: tuple[str, ...], remembered: Remembered, leader: str | None
) -> tuple[str, ...]:
    """Return the control planes to try, the likeliest first, each once."""
    named = (*((leader,) if leader else ()), *configured, *remembered.control_planes)
    return tuple(dict.fromkeys(named))
