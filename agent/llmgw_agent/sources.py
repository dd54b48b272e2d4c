"""The sources of facts of this machine, put together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.model.node import NodeWarning
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import LIVE, ShardStatus
from llmgw_agent.config import AgentConfig
from llmgw_agent.engines.adapter import NodeFacts
from llmgw_agent.host.world import World
from llmgw_agent.parse.engine_metrics import EngineUse
from llmgw_agent.probe.cards import CardProbes, card_probes
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.facts import ProbedFacts, ProbedSource
from llmgw_agent.probe.further import Means, further
from llmgw_agent.probe.host import HostProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.shards import ShardsProbe


@dataclass(frozen=True, slots=True)
class Directories:
    """Where an agent keeps what is its own."""

    state: Path
    weights: Path
    engines: Path


class Groups:
    """The process groups of this agent's engines; known once there is a supervisor."""

    def __init__(self) -> None:
        self.statuses: Callable[[], Iterable[ShardStatus]] = tuple
        self.uses: Callable[[], Mapping[tuple[str, int], EngineUse]] = dict

    def by_group(self) -> dict[int, tuple[str, int]]:
        """Return replica and rank by process group."""
        return {
            status.pid: (status.replica, status.rank)
            for status in self.statuses()
            if status.pid is not None and status.state in LIVE
        }

    def own_uses(self) -> Mapping[tuple[str, int], EngineUse]:
        """Return what engines say that they have to do, by replica and rank."""
        return self.uses()

    def own(self) -> frozenset[int]:
        """Return the groups alone."""
        return frozenset(self.by_group())


@dataclass(frozen=True, slots=True)
class Around:
    """What the sources are made with.

    `settings` returns what the control plane told; None: nothing yet. `further` makes the sources
    that placement does not need. `writes`: sources may write into the state directory.
    """

    config: AgentConfig
    directories: Directories
    world: World
    groups: Groups
    settings: Callable[[], NodeSettings | None]
    further: Callable[[Means], tuple[ProbedSource, ...]] = further
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources: those that others ask by name, and the rest."""

    clock: Clock
    host: HostProbe
    memory: MemoryProbe
    cpu: CpuProbe
    disks: DisksProbe
    gpus: CardProbes
    shards: ShardsProbe
    further: tuple[ProbedSource, ...]

    def facts(self, warnings: tuple[NodeWarning, ...] = ()) -> ProbedFacts:
        """Return them as facts."""
        found = (self.host, self.memory, self.cpu, self.disks, *self.gpus.all, self.shards)
        return ProbedFacts((*found, *self.further), self.clock, warnings)

    def node_facts(self) -> NodeFacts:
        """Return what a shard's spec is checked against."""
        memory, cpu = self.memory.memory.last, self.cpu.use.last
        return NodeFacts(
            devices=self.gpus.cards.devices,
            cpus=None if cpu is None else cpu.cpus,
            memory_bytes=None if memory is None else memory.total_bytes,
        )


def sources(around: Around) -> Sources:
    """Return the sources of this machine; nothing is asked yet."""
    world, config, groups = around.world, around.config, around.groups
    clock, files, processes = world.clock, world.files, world.processes
    places = around.directories
    directories = (places.weights, places.engines, places.state, *map(Path, config.model_dirs))
    return Sources(
        clock=clock,
        host=HostProbe(files, clock, world.machine),
        memory=MemoryProbe(files, clock),
        cpu=CpuProbe(files, clock),
        disks=DisksProbe(
            tuple(dict.fromkeys(directories)),
            files,
            world.new_helper("llmgw_agent.host.disk_side", 0.0),
            clock,
            shared_types=config.shared_filesystems,
        ),
        gpus=card_probes(
            world.new_helper("llmgw_agent.probe.nvml_side", 0.0)(), processes, groups.own, clock
        ),
        shards=ShardsProbe(groups.by_group, files, clock, uses=groups.own_uses),
        further=around.further(
            Means(
                clock=clock,
                files=files,
                processes=processes,
                http=world.http,
                config=config,
                new_helper=lambda module: world.new_helper(module, 0.0)(),
                settings=around.settings,
                own_groups=groups.own,
                state=places.state,
                writes=around.writes,
            )
        ),
    )
