"""Agents with real processes, in this process or as one that a test can kill."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from llmgw.base.system import SystemProcesses
from llmgw.base.world import Child, HttpAnswer, ProcessSeen
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw_agent.engines.program import Program
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.supervise.supervisor import Supervisor
from tests.processes import with_environ
from tests.supervising import supervisor
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
KEY = "00112233445566778899aabbccddeeff"


def python_path() -> str:
    """Return the PYTHONPATH of the checkout's packages."""
    return ":".join(str(ROOT / part) for part in ("", "agent", "proto", "tui"))


class KnownProcesses(SystemProcesses):
    """The machine's processes; those started here are reaped by the test that outlives them."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[Child] = []

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        user: str | None = None,
        outlives: bool = True,
    ) -> Child:
        child = await super().start(argv, env=env, log=log, cwd=cwd, user=user, outlives=outlives)
        self.children.append(child)
        return child


@dataclass
class RealNode:
    """A state directory, and the agents that come and go on it."""

    state: Path
    program: Program
    weights: Path | None
    processes: KnownProcesses = field(default_factory=KnownProcesses)
    told: list[ShardStatus] = field(default_factory=list)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Supervisor]:
        """Run an agent in this process."""
        async with supervisor(
            self.state, self.program, self.weights, self.told.append, self.processes
        ) as agent:
            yield agent

    @asynccontextmanager
    async def agent_process(self, spec: ShardSpec | None = None) -> AsyncIterator["AgentProcess"]:
        """Run an agent as a process of its own; it is killed at the end if it still runs."""
        argv = ["-m", "tests.supervising", "--state", str(self.state)]
        argv += ["--program", str(self.program.path)]
        for libraries in self.program.libraries:
            argv += ["--libraries", str(libraries)]
        argv += ["--launched", json.dumps(self.program.launched)]
        if self.weights is not None:
            argv += ["--weights", str(self.weights)]
        if spec is not None:
            argv += ["--start", msgspec.json.encode(spec).decode(), "--key", KEY]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv,
            stdout=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": python_path(), "PATH": "/usr/bin:/bin"},
            cwd="/",
        )
        agent = AgentProcess(process)
        try:
            yield agent
        finally:
            await agent.end(signal.SIGKILL)

    async def until(self, state: str, timeout: float = 30.0) -> ShardStatus:
        """Wait until a status of that state was told."""

        def told() -> list[ShardStatus]:
            failed = [s for s in self.told if s.state == "failed"]
            assert not failed or state == "failed", (failed[0].cause, failed[0].reason)
            return [s for s in self.told if s.state == state]

        return (await wait_until(told, timeout, what=state))[0]

    def ours(self) -> tuple[int, ...]:
        """Return the pids of this node's live engines."""
        return tuple(p.pid for p in self._ours())

    def _ours(self) -> list[ProcessSeen]:
        return with_environ("LLMGW_STATE", str(self.state))

    async def end_all(self) -> None:
        for seen in self._ours():
            self.processes.signal_group(seen.group, signal.SIGKILL)
        await wait_until(lambda: not self.ours(), what="engines gone")
        for child in self.processes.children:
            await child.wait()


class AgentProcess:
    """An agent that is a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.found: list[ShardStatus] = []

    async def until(self, state: str, timeout: float = 30.0) -> ShardStatus:
        """Read what it tells until it tells of that state."""
        async with asyncio.timeout(timeout):
            while True:
                line = await self._line()
                if "found" in line:
                    self.found = msgspec.convert(line["found"], list[ShardStatus])
                    continue
                status = msgspec.convert(line, ShardStatus)
                assert status.state != "failed" or state == "failed", status
                if status.state == state:
                    return status

    async def end(self, signal_: signal.Signals) -> int:
        """Signal it and wait for its end."""
        if self.process.returncode is None:
            self.process.send_signal(signal_)
        await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            raw = await self.process.stdout.readline()
            assert raw, "the agent has ended"
            if raw.startswith(b"{"):
                read: dict[str, Any] = json.loads(raw)
                return read


async def ask(
    status: ShardStatus, path: str, body: object = None, *, key: str | None = KEY
) -> HttpAnswer:
    """Ask an engine."""
    headers: Mapping[str, str] = {} if key is None else {"Authorization": f"Bearer {key}"}
    http = HttpxHttp(proxies=False)
    try:
        return await http.request(
            "GET" if body is None else "POST",
            f"http://{status.address}:{status.port}{path}",
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
            timeout=30,
        )
    finally:
        await http.close()
