"""A small agent: a supervisor and nothing else, as a process that tests start and kill.

Prints each status as a line of JSON, and `{"found": [...]}` when it has looked around.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from llmgw.base.clock import SystemClock
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.base.world import Processes
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.program import Program
from llmgw_agent.engines.simulated import Simulated
from llmgw_agent.host.http import HttpxHttp
from llmgw_agent.supervise.ports import PortRange
from llmgw_agent.supervise.shard import Report
from llmgw_agent.supervise.supervisor import Supervisor
from tests.fakes.node import FakePrograms, FakeWeights

PORTS = PortRange(21000, 28999)


def say(line: object) -> None:
    print(json.dumps(msgspec.to_builtins(line)), flush=True)


@asynccontextmanager
async def supervisor(
    state: Path,
    program: Program,
    weights: Path | None,
    report: Report = say,
    processes: Processes | None = None,
) -> AsyncIterator[Supervisor]:
    """Run a supervisor of this machine's real processes."""
    programs, held = FakePrograms(), FakeWeights()
    programs.answer, held.answer = program, weights
    adapters: dict[str, Adapter] = {"llamacpp": LlamaCpp(), "simulated": Simulated()}
    http = HttpxHttp(proxies=False)
    agent = Supervisor(
        processes=processes or SystemProcesses(),
        files=SystemFiles(),
        http=http,
        clock=SystemClock(),
        adapters=adapters,
        programs=programs,
        weights=held,
        state_dir=state,
        cluster="c",
        node="n1",
        report=report,
        host="127.0.0.1",
        ports=PORTS,
        environ=dict(os.environ),
    )
    try:
        async with agent:
            await agent.adopt()
            yield agent
    finally:
        await http.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--libraries", type=Path)
    parser.add_argument("--launched", type=json.loads, default=[])
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--start", help="a ShardSpec as JSON")
    parser.add_argument("--key")
    asked = parser.parse_args()
    libraries = (asked.libraries,) if asked.libraries else ()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    program = Program(path=asked.program, libraries=libraries, launched=tuple(asked.launched))
    async with supervisor(asked.state, program, asked.weights) as agent:
        statuses: tuple[ShardStatus, ...] = agent.statuses()
        say({"found": msgspec.to_builtins(statuses)})
        if asked.start:
            await agent.start(msgspec.json.decode(asked.start, type=ShardSpec), asked.key)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)
