"""The real parts of an agent, put together."""

import asyncio
import os
import random
import secrets
import sys
from collections.abc import Callable, Mapping
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
from llmgw_agent.config import AgentConfig
from llmgw_agent.core import AgentCore, Parts, Who, addresses
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.programs import Programs
from llmgw_agent.engines.simulated import Simulated
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.host.machine import Machine
from llmgw_agent.remembered import Remembered
from llmgw_agent.renewal import Renewal
from llmgw_agent.sources import Around, Directories, Groups, Sources, helpers, sources
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
    groups = Groups()
    http = HttpxHttp(proxies=False)
    probes = sources(
        Around(
            config=around.config,
            directories=around.directories,
            clock=around.clock,
            environ=around.environ,
            http=http,
            groups=groups,
            settings=lambda: around.remembered.settings,
        )
    )
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
    probes: Sources,
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
        who_holds=probes.gpus.use.holders,
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


def _programs(around: Surroundings, changed: Callable[[], None]) -> Programs:
    return Programs(
        around.directories.engines,
        around.config.engines,
        machine=Machine.here(),
        new_helper=helpers("llmgw_agent.engines.install_side", around.environ, _FETCH_GRACE),
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
        disk=helpers("llmgw_agent.host.disk_side", around.environ)(),
        new_helper=helpers("llmgw_agent.weights.fetch_side", around.environ, _FETCH_GRACE),
        clock=around.clock,
        allow_http=around.config.allow_http,
        shared=shared,
        changed=changed,
    )


def _rng() -> random.Random:
    return random.Random(int.from_bytes(os.urandom(8)))
