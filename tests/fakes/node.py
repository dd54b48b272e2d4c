"""A supervisor on a machine in memory: every part that it talks to is in the test's hands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.base.errors import LlmgwError
from llmgw.base.world import HttpAnswer
from llmgw.model.catalog import PathSource
from llmgw.model.shard import Progress, ShardSpec, ShardStatus
from llmgw_agent.engines.adapter import NodeFacts
from llmgw_agent.engines.adapter import Program as AnyProgram
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.program import Program
from llmgw_agent.supervise.ports import PortRange
from llmgw_agent.supervise.supervisor import Supervisor
from tests.fakes.clock import FakeClock, settle
from tests.fakes.machine import FakeHttp, FakeProcess, FakeProcesses, MemoryFiles, nobody

STATE = Path("/state/agent")
SHARD_DIR = STATE / "shards" / "tiny-abc123.0"
"""Of the shard that `shard_spec` describes."""
FIXTURES = Path(__file__).parents[1] / "fixtures"
CPU_LOG = (FIXTURES / "llama-server" / "start-lv4-device-none-keyed.log").read_bytes()
VULKAN_LOG = (FIXTURES / "llama-server" / "start-lv4-vulkan-software.log").read_bytes()
KEY = "0123456789abcdef0123456789abcdef"


def shard_spec(replica: str = "tiny-abc123", **changes: object) -> ShardSpec:
    fields: dict[str, object] = {
        "replica": replica,
        "model": "tiny",
        "profile": "default",
        "fingerprint": "f00d",
        "engine": "llamacpp",
        "source": PathSource(path="/models/tiny.gguf"),
        "context": 512,
        "concurrency": 2,
    }
    return ShardSpec(**{**fields, **changes})  # type: ignore[arg-type]


class FakePrograms:
    """Programs whose answer the test sets."""

    def __init__(self) -> None:
        self.answer: Program | LlmgwError = Program(
            path=Path("/engines/llama-server"), libraries=(Path("/engines/lib"),), version="1"
        )
        self.distrusted: list[tuple[Path, str]] = []

    def program(self, engine: str, version: str | None = None) -> Program:
        if isinstance(self.answer, LlmgwError):
            raise self.answer
        return self.answer

    def distrust(self, program: AnyProgram, words: str) -> None:
        self.distrusted.append((program.path, words))


class FakeWeights:
    """Weights that come when the test lets them."""

    def __init__(self) -> None:
        self.answer: Path | LlmgwError | None = Path("/models/tiny.gguf")
        self.come = asyncio.Event()
        self.come.set()
        self.tell: Callable[[Progress], None] | None = None
        self.cancelled = 0

    async def fetch(self, source: object, progress: Callable[[Progress], None]) -> Path | None:
        self.tell = progress
        try:
            await self.come.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.answer, LlmgwError):
            raise self.answer
        return self.answer


@dataclass
class FakeNode:
    """A node in memory and what its supervisor told."""

    clock: FakeClock = field(default_factory=FakeClock)
    files: MemoryFiles = field(default_factory=MemoryFiles)
    processes: FakeProcesses = field(init=False)
    http: FakeHttp = field(default_factory=FakeHttp)
    programs: FakePrograms = field(default_factory=FakePrograms)
    weights: FakeWeights = field(default_factory=FakeWeights)
    facts: NodeFacts = field(default_factory=NodeFacts)
    busy_ports: set[int] = field(default_factory=set)
    holders: str | None = None
    told: list[ShardStatus] = field(default_factory=list)
    started: list[FakeProcess] = field(default_factory=list)
    log: bytes = CPU_LOG
    """What an engine writes as it starts."""
    ready: bool = True
    """Whether an engine answers as soon as it is started."""
    dies_with: int | None = None
    """The exit status of an engine that ends as soon as it is started."""

    def __post_init__(self) -> None:
        self.processes = FakeProcesses(self.files)
        self.processes.on_start = self._on_start
        self.http.answering = self._answer

    def _on_start(self, process: FakeProcess, log: Path) -> None:
        self.started.append(process)
        self.files.append(log, self.log)
        if self.dies_with is not None:
            process.end(self.dies_with)

    def _answer(self, url: str, headers: Mapping[str, str]) -> HttpAnswer:
        listening = [p for p in self.started if p.alive and f":{port_of(p)}/" in url]
        if not listening:
            return nobody(url, headers)
        if not self.ready:
            body = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
            return HttpAnswer(status=503, body=body)
        key = listening[0].environ.get("LLAMA_API_KEY")
        given = headers.get("authorization", "").removeprefix("Bearer ")
        refused = url.endswith("/metrics") and key is not None and given != key
        return HttpAnswer(status=401 if refused else 200, body=b"{}")

    @asynccontextmanager
    async def agent(self, state: Path = STATE) -> AsyncIterator[Supervisor]:
        """Run a supervisor; a second one is the agent after a restart."""
        supervisor = Supervisor(
            processes=self.processes,
            files=self.files,
            http=self.http,
            clock=self.clock,
            adapters={"llamacpp": LlamaCpp()},
            programs=self.programs,
            weights=self.weights,
            state_dir=state,
            cluster="c",
            node="n1",
            report=self.told.append,
            host="127.0.0.1",
            ports=PortRange(7500, 7502),
            environ={"PATH": "/bin", "HOME": "/root", "LANG": "C", "SECRET": "x", "AWS_KEY": "y"},
            facts=lambda: self.facts,
            port_free=lambda port: port not in self.busy_ports,
            who_holds=lambda devices: self.holders,
        )
        async with supervisor:
            await supervisor.adopt()
            await settle()
            yield supervisor

    async def run_until(self, state: str, seconds: float = 60.0, replica: str = "") -> ShardStatus:
        """Let time pass until a status with that state was told; return the last told."""
        end = self.clock.monotonic() + seconds
        while not any(self._matches(s, state, replica) for s in self.told):
            assert self.clock.monotonic() < end, [s.state for s in self.told]
            await self.clock.advance(0.25)
        return next(s for s in reversed(self.told) if self._matches(s, state, replica))

    def _matches(self, status: ShardStatus, state: str, replica: str) -> bool:
        return status.state == state and status.replica.startswith(replica)

    def states(self) -> list[str]:
        """Return the transitions that were told: progress left out."""
        seen: list[str] = []
        for status in self.told:
            if not seen or seen[-1] != status.state:
                seen.append(status.state or "")
        return seen


def port_of(process: FakeProcess) -> int:
    return int(process.argv[process.argv.index("--port") + 1])
