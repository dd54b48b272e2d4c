"""An agent whose machine is a recording: its stream, commands and supervisor are the real ones.

What it lacks is a machine: facts are replayed, engines are processes in a table that answer as soon
as they are started, and small files are kept in memory. Its certificate is a real file.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

import llmgw
from llmgw.base.clock import Clock
from llmgw.base.log import LogRing
from llmgw.base.system import SystemFiles
from llmgw.base.world import HttpAnswer
from llmgw.link.dial import Dialer
from llmgw.link.enrol import Own
from llmgw.model.link import Welcome
from llmgw.model.node import Heartbeat
from llmgw.model.shard import LIVE, ShardSpec, ShardStatus, ShardUse
from llmgw_agent.assembly import RECONNECT, SILENCE, adapters
from llmgw_agent.core import AgentCore, Parts, Who, addresses
from llmgw_agent.engines.adapter import NodeFacts
from llmgw_agent.remembered import Remembered
from llmgw_agent.renewal import Renewal
from llmgw_agent.supervise.ports import PortRange
from llmgw_agent.supervise.supervisor import Supervisor
from llmgw_agent.uplink import Uplink
from tests.fakes.agent import FakeEngines, FakeNodeWeights, RecordedFacts
from tests.fakes.machine import FakeHttp, FakeProcess, FakeProcesses, MemoryFiles, nobody
from tests.fakes.node import FakePrograms, FakeWeights, port_of
from tests.fakes.recorded_fleet import Recording

STATE = Path("/state/agent")
COMPUTE = b"simulated: computes on nothing\n"
_REFUSED, _OK = HttpAnswer(status=401, body=b"{}"), HttpAnswer(status=200, body=b"{}")


class ReplayedFacts(RecordedFacts):
    """A recording's heartbeats, one after the other, with what runs by now."""

    def __init__(
        self, recording: Recording, statuses: Callable[[], tuple[ShardStatus, ...]]
    ) -> None:
        super().__init__(recording.inventory)
        self._beats = recording.beats
        self._statuses = statuses

    def heartbeat(self, sequence: int, sent: float) -> Heartbeat:
        uses = tuple(
            ShardUse(
                replica=status.replica,
                rank=status.rank,
                cpu_cores=0.5,
                memory_bytes=10**9,
                requests_running=sequence % 3,
                requests_waiting=0,
            )
            for status in self._statuses()
            if status.state in LIVE
        )
        beat = self._beats[sequence % len(self._beats)]
        return msgspec.structs.replace(beat, sequence=sequence, sent=sent, shards=uses)


class EnginesInMemory:
    """The machine of an agent whose engines are entries of a table."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.processes = FakeProcesses(self.files)
        self.processes.on_start = self._on_start
        self.http = FakeHttp()
        self.http.answering = self._answer

    def _on_start(self, process: FakeProcess, log: Path) -> None:
        self.files.append(log, COMPUTE)

    def _answer(self, url: str, headers: Mapping[str, str]) -> HttpAnswer:
        self.http.asked.clear()  # thousands of them, and nobody reads them
        listening = [p for p in self.processes.live() if f":{port_of(p)}/" in url]
        if not listening:
            return nobody(url, headers)
        key = listening[0].environ.get("LLMGW_ENGINE_KEY")
        given = headers.get("authorization", "").removeprefix("Bearer ")
        wrong = url.endswith("/metrics") and key is not None and given != key
        return _REFUSED if wrong else _OK


class CountedSupervisor(Supervisor):
    """Counts what it is told to do."""

    starts = 0
    stops = 0

    async def start(self, spec: ShardSpec, key: str | None) -> None:
        self.starts += 1
        await super().start(spec, key)

    async def stop(self, replica: str, rank: int, reason: str | None) -> None:
        self.stops += 1
        await super().stop(replica, rank, reason)


class RecordedCore(AgentCore):
    """Tells each welcome."""

    def __init__(self, who: Who, parts: Parts, on_welcome: Callable[[], None]) -> None:
        super().__init__(who, parts)
        self._on_welcome = on_welcome

    def welcomed(self, welcome: Welcome) -> None:
        super().welcomed(welcome)
        self._on_welcome()


class RecordedAgent:
    """One agent; `core.run()` is its life, `dialer.stop()` ends it.

    Args:
        recording: its machine.
        own: its certificate.
        control_plane: where it dials.
        clock: the time.
        rng: jitter.
        on_welcome: called at each welcome.
    """

    def __init__(
        self,
        recording: Recording,
        own: Own,
        control_plane: str,
        *,
        clock: Clock,
        rng: random.Random,
        on_welcome: Callable[[], None],
    ) -> None:
        identity, machine, uplink = own.identity, EnginesInMemory(), Uplink()
        self.engines, self.weights = FakeEngines(), FakeNodeWeights()
        self.engines.list, self.engines.probed = recording.engines, True
        self.weights.sets = recording.weights
        self.shards = _supervisor(recording, own, machine, clock, uplink)
        self.remembered = Remembered(STATE / "cluster.json", identity.cluster, machine.files)
        self.renewal = Renewal(own, own.files.certificate.parent, clock, SystemFiles())
        self.dialer = Dialer(
            lambda: addresses((control_plane,), self.remembered, self.core.leader()),
            self.renewal.context,
            "agent",
            clock=clock,
            rng=rng,
            backoff=RECONNECT,
            silence=SILENCE,
        )
        who = Who(
            cluster=identity.cluster,
            node=identity.id,
            boot=f"{rng.getrandbits(64):016x}",
            version=llmgw.__version__,
            address="127.0.0.1",
            labels=recording.labels,
        )
        parts = Parts(
            facts=ReplayedFacts(recording, self.shards.statuses),
            engines=self.engines,
            weights=self.weights,
            shards=self.shards,
            uplink=uplink,
            remembered=self.remembered,
            dialer=self.dialer,
            changed=asyncio.Event(),
            ring=LogRing(),
            clock=clock,
            renewal=self.renewal,
        )
        self.core = RecordedCore(who, parts, on_welcome)


def _supervisor(
    recording: Recording, own: Own, machine: EnginesInMemory, clock: Clock, uplink: Uplink
) -> CountedSupervisor:
    host = recording.inventory.host
    facts = NodeFacts(
        devices=recording.inventory.devices,
        cpus=None if host is None else host.cpus,
        memory_bytes=None if host is None else host.memory_bytes,
    )
    return CountedSupervisor(
        processes=machine.processes,
        files=machine.files,
        http=machine.http,
        clock=clock,
        adapters=adapters(),
        programs=FakePrograms(),
        weights=FakeWeights(),
        state_dir=STATE,
        cluster=own.identity.cluster,
        node=own.identity.id,
        report=uplink.tell,
        host="127.0.0.1",
        ports=PortRange(7500, 7999),
        environ={"PATH": "/usr/bin"},
        facts=lambda: facts,
        port_free=lambda _: True,
    )
