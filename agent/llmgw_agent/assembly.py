"""The real parts of an agent, put together."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import llmgw
from llmgw.base.backoff import Backoff
from llmgw.base.log import LogRing
from llmgw.link.dial import Dialer
from llmgw.link.enrol import Own
from llmgw.link.identity import uri_of
from llmgw.model.node import NodeWarning
from llmgw_agent.config import AgentConfig
from llmgw_agent.core import AgentCore, Parts, Who, addresses
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.programs import Programs
from llmgw_agent.engines.simulated import Simulated
from llmgw_agent.host.world import ClosableHttp, World
from llmgw_agent.probe.facts import ProbedSource
from llmgw_agent.probe.further import Means, further
from llmgw_agent.remembered import Remembered
from llmgw_agent.renewal import Renewal
from llmgw_agent.sources import Around, Directories, Groups, Sources, sources
from llmgw_agent.supervise.ports import PortRange
from llmgw_agent.supervise.supervisor import Supervisor
from llmgw_agent.uplink import Uplink
from llmgw_agent.weights.fetch import Weights

SILENCE = 20.0
"""Seconds without a word after which a control plane is dead, until it says its interval."""

RECONNECT = Backoff(first=0.5, most=10.0)
"""Until a control plane says how soon to be back (`NodeSettings.reconnect_within`)."""

_FETCH_GRACE = 5.0
"""Seconds that a helper with children of its own (pip, an engine's --version) gets to end them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent is put together with.

    `plaintext`: it dials without TLS, which is for loopback alone. `further` makes the sources of
    facts that placement does not need.
    """

    config: AgentConfig
    directories: Directories
    own: Own
    remembered: Remembered
    address: str
    ring: LogRing
    world: World
    environ: Mapping[str, str]
    warnings: tuple[NodeWarning, ...] = ()
    plaintext: bool = False
    further: Callable[[Means], tuple[ProbedSource, ...]] = further


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be run and stopped."""

    core: AgentCore
    dialer: Dialer
    http: ClosableHttp

    async def run(self) -> None:
        """Be an agent until `stop`."""
        try:
            await self.core.run()
        finally:
            await self.http.close()

    def stop(self) -> None:
        """Close the stream and end; engines go on."""
        self.dialer.stop()


def assemble(around: Surroundings) -> Agent:
    """Return an agent of the product's own parts."""
    world = around.world
    uplink, changed = Uplink(), asyncio.Event()
    engines = _programs(around, changed.set)
    groups = Groups()
    probes = sources(
        Around(
            config=around.config,
            directories=around.directories,
            world=world,
            groups=groups,
            settings=lambda: around.remembered.settings,
            further=around.further,
        )
    )
    weights = _weights(around, probes.disks.shared, changed.set)
    shards = _supervisor(around, probes, engines, weights, uplink)
    groups.statuses, groups.uses = shards.statuses, shards.uses
    renewal = Renewal(around.own, around.directories.state, world.clock, world.files)
    leader = _Leader()
    dialer = _dialer(around, renewal, leader)
    core = AgentCore(
        _who(around),
        Parts(
            facts=probes.facts(around.warnings),
            engines=engines,
            weights=weights,
            shards=shards,
            uplink=uplink,
            remembered=around.remembered,
            dialer=dialer,
            changed=changed,
            ring=around.ring,
            clock=world.clock,
            renewal=renewal,
        ),
    )
    leader.named = core.leader
    return Agent(core=core, dialer=dialer, http=world.http)


def _who(around: Surroundings) -> Who:
    identity = around.own.identity
    return Who(
        cluster=identity.cluster,
        node=identity.id,
        boot=around.world.boot,
        version=llmgw.__version__,
        address=around.address,
        labels=dict(around.config.labels),
    )


def _supervisor(
    around: Surroundings,
    probes: Sources,
    engines: Programs,
    weights: Weights,
    uplink: Uplink,
) -> Supervisor:
    config, identity, world = around.config, around.own.identity, around.world
    host = config.engine_host or around.address
    return Supervisor(
        processes=world.processes,
        files=world.files,
        http=world.http,
        clock=world.clock,
        adapters=adapters(),
        programs=engines,
        weights=weights,
        state_dir=around.directories.state,
        cluster=identity.cluster,
        node=identity.id,
        report=uplink.tell,
        host=host,
        address=around.address,
        ports=PortRange.parse(config.engine_ports),
        environ=around.environ,
        user=config.user,
        facts=probes.node_facts,
        port_free=lambda port: world.port_free(host, port),
        who_holds=probes.gpus.use.holders,
        stuck_after=config.stuck_after,
    )


class _Leader:
    """The leader that a standby named last; known once there is a core."""

    def __init__(self) -> None:
        self.named: Callable[[], str | None] = lambda: None


def _dialer(around: Surroundings, renewal: Renewal, leader: _Leader) -> Dialer:
    own = around.own.identity
    return Dialer(
        lambda: addresses(around.config.control_planes, around.remembered, leader.named()),
        renewal.context if not around.plaintext else lambda: None,
        "agent",
        clock=around.world.clock,
        rng=around.world.rng,
        backoff=RECONNECT,
        silence=SILENCE,
        claim=uri_of(own.cluster, own.role, own.id) if around.plaintext else None,
    )


def adapters() -> dict[str, Adapter]:
    """Return the engines that this version can run, by name."""
    return {adapter.name: adapter for adapter in (LlamaCpp(), Simulated())}


def _programs(around: Surroundings, changed: Callable[[], None]) -> Programs:
    return Programs(
        around.directories.engines,
        around.config.engines,
        machine=around.world.machine,
        new_helper=around.world.new_helper("llmgw_agent.engines.install_side", _FETCH_GRACE),
        clock=around.world.clock,
        rng=around.world.rng,
        llmgw_version=llmgw.__version__,
        interpreter=Path(sys.executable),
        changed=changed,
    )


def _weights(
    around: Surroundings, shared: Callable[[str], bool | None], changed: Callable[[], None]
) -> Weights:
    return Weights(
        around.directories.weights,
        tuple(map(Path, around.config.model_dirs)),
        disk=around.world.new_helper("llmgw_agent.host.disk_side", 0.0)(),
        new_helper=around.world.new_helper("llmgw_agent.weights.fetch_side", _FETCH_GRACE),
        clock=around.world.clock,
        allow_http=around.config.allow_http,
        shared=shared,
        changed=changed,
    )
