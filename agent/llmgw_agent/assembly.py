"""The real parts of an agent, put together."""

import asyncio
import os
import random
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import llmgw
from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.log import LogRing
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.link.dial import Dialer
from llmgw.link.enrol import Own
from llmgw.model.node import NodeWarning
from llmgw.model.shard import LIVE, ShardStatus
from llmgw_agent.config import AgentConfig
from llmgw_agent.core import AgentCore, Parts, Who, addresses
from llmgw_agent.engines.adapter import Adapter, NodeFacts
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.programs import Programs
from llmgw_agent.engines.simulated import Simulated
from llmgw_agent.host.helper import Helper, HelperProcess
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.host.machine import Machine
from llmgw_agent.probe.cards import CardsProbe
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.facts import ProbedFacts, ProbedSource
from llmgw_agent.probe.further import Means, further
from llmgw_agent.probe.host import HostProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.shards import ShardsProbe
from llmgw_agent.remembered import Remembered
from llmgw_agent.renewal import Renewal
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
class Directories:
    """Where an agent keeps what is its own."""

    state: Path
    weights: Path
    engines: Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent is put together with."""

    config: AgentConfig
    directories: Directories
    own: Own
    remembered: Remembered
    address: str
    ring: LogRing
    clock: Clock
    environ: Mapping[str, str]
    warnings: tuple[NodeWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be run and stopped."""

    core: AgentCore
    dialer: Dialer
    http: HttpxHttp

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
    """Return an agent of this machine's own parts."""
    uplink, changed = Uplink(), asyncio.Event()
    engines = _programs(around, changed.set)
    groups = _Groups()
    http = HttpxHttp(proxies=False)
    probes = _probes(around, groups, http)
    weights = _weights(around, probes.disks.shared, changed.set)
    shards = _supervisor(around, probes, engines, weights, http, uplink)
    groups.statuses = shards.statuses
    renewal = Renewal(around.own, around.directories.state, around.clock, SystemFiles())
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
            clock=around.clock,
            renewal=renewal,
        ),
    )
    leader.named = core.leader
    return Agent(core=core, dialer=dialer, http=http)


def _who(around: Surroundings) -> Who:
    identity = around.own.identity
    return Who(
        cluster=identity.cluster,
        node=identity.id,
        boot=secrets.token_hex(8),
        version=llmgw.__version__,
        address=around.address,
        labels=dict(around.config.labels),
    )


def _supervisor(
    around: Surroundings,
    probes: "_Probes",
    engines: Programs,
    weights: Weights,
    http: HttpxHttp,
    uplink: Uplink,
) -> Supervisor:
    config, identity = around.config, around.own.identity
    return Supervisor(
        processes=SystemProcesses(),
        files=SystemFiles(),
        http=http,
        clock=around.clock,
        adapters=adapters(),
        programs=engines,
        weights=weights,
        state_dir=around.directories.state,
        cluster=identity.cluster,
        node=identity.id,
        report=uplink.tell,
        host=config.engine_host or around.address,
        address=around.address,
        ports=PortRange.parse(config.engine_ports),
        environ=around.environ,
        user=config.user,
        facts=probes.node_facts,
        who_holds=probes.cards.holders,
    )


class _Leader:
    """The leader that a standby named last; known once there is a core."""

    def __init__(self) -> None:
        self.named: Callable[[], str | None] = lambda: None


def _dialer(around: Surroundings, renewal: Renewal, leader: _Leader) -> Dialer:
    return Dialer(
        lambda: addresses(around.config.control_planes, around.remembered, leader.named()),
        renewal.context,
        "agent",
        clock=around.clock,
        rng=_rng(),
        backoff=RECONNECT,
        silence=SILENCE,
    )


def adapters() -> dict[str, Adapter]:
    """Return the engines that this version can run, by name."""
    return {adapter.name: adapter for adapter in (LlamaCpp(), Simulated())}


class _Groups:
    """The process groups of this agent's engines; known once there is a supervisor."""

    def __init__(self) -> None:
        self.statuses: Callable[[], Iterable[ShardStatus]] = tuple

    def by_group(self) -> dict[int, tuple[str, int]]:
        """Return replica and rank by process group."""
        return {
            status.pid: (status.replica, status.rank)
            for status in self.statuses()
            if status.pid is not None and status.state in LIVE
        }

    def own(self) -> frozenset[int]:
        """Return the groups alone."""
        return frozenset(self.by_group())


@dataclass(frozen=True, slots=True)
class _Probes:
    clock: Clock
    host: HostProbe
    memory: MemoryProbe
    cpu: CpuProbe
    disks: DisksProbe
    cards: CardsProbe
    shards: ShardsProbe
    further: tuple[ProbedSource, ...]

    def facts(self, warnings: tuple[NodeWarning, ...]) -> ProbedFacts:
        """Return them as facts."""
        found = (self.host, self.memory, self.cpu, self.disks, self.cards, self.shards)
        return ProbedFacts((*found, *self.further), self.clock, warnings)

    def node_facts(self) -> NodeFacts:
        """Return what a shard's spec is checked against."""
        memory, cpu = self.memory.memory.last, self.cpu.use.last
        return NodeFacts(
            devices=self.cards.devices,
            cpus=None if cpu is None else cpu.cpus,
            memory_bytes=None if memory is None else memory.total_bytes,
        )


def _probes(around: Surroundings, groups: _Groups, http: HttpxHttp) -> _Probes:
    clock, files, config = around.clock, SystemFiles(), around.config
    places = around.directories
    directories = (places.weights, places.engines, places.state, *map(Path, config.model_dirs))
    return _Probes(
        clock=clock,
        host=HostProbe(files, clock, Machine.here()),
        memory=MemoryProbe(files, clock),
        cpu=CpuProbe(files, clock),
        disks=DisksProbe(
            tuple(dict.fromkeys(directories)),
            files,
            _helpers("llmgw_agent.host.disk_side", around.environ),
            clock,
            shared_types=config.shared_filesystems,
        ),
        cards=CardsProbe(
            _helpers("llmgw_agent.probe.nvml_side", around.environ)(),
            SystemProcesses(),
            groups.own,
            clock,
        ),
        shards=ShardsProbe(groups.by_group, files, clock),
        further=further(
            Means(
                clock=clock,
                files=files,
                processes=SystemProcesses(),
                http=http,
                config=config,
                new_helper=lambda module: _helpers(module, around.environ)(),
                settings=lambda: around.remembered.settings,
            )
        ),
    )


def _programs(around: Surroundings, changed: Callable[[], None]) -> Programs:
    return Programs(
        around.directories.engines,
        around.config.engines,
        machine=Machine.here(),
        new_helper=_helpers("llmgw_agent.engines.install_side", around.environ, _FETCH_GRACE),
        clock=around.clock,
        rng=_rng(),
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
        disk=_helpers("llmgw_agent.host.disk_side", around.environ)(),
        new_helper=_helpers("llmgw_agent.weights.fetch_side", around.environ, _FETCH_GRACE),
        clock=around.clock,
        allow_http=around.config.allow_http,
        shared=shared,
        changed=changed,
    )


def _helpers(module: str, environ: Mapping[str, str], grace: float = 0.0) -> Callable[[], Helper]:
    argv = (sys.executable, "-m", module)
    return lambda: HelperProcess(argv, environ=environ, grace=grace)


def _rng() -> random.Random:
    return random.Random(int.from_bytes(os.urandom(8)))
