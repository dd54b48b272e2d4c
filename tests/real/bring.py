"""Bring llama.cpp or the demo's model to this machine by the agent's own code, and say where.

Run as `python -m tests.real.bring engine|xllamacpp|model`: prints one line of JSON.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

from llmgw.base import log
from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError
from llmgw.base.places import Places
from llmgw.local.demo_model import GEMMA
from llmgw.model.catalog import LLAMACPP
from llmgw.model.node import FAILED
from llmgw.model.settings import LLAMACPP_DEFAULT, XLLAMACPP, EngineOrder
from llmgw_agent.engines.program import Program
from llmgw_agent.engines.programs import Programs
from llmgw_agent.host.helper import Helper, HelperProcess
from llmgw_agent.host.machine import Machine
from llmgw_agent.weights.fetch import Weights
from tests.waiting import wait_until

BRING_LIMIT = 240.0

LAUNCHED = EngineOrder(
    builds=tuple(build for build in LLAMACPP_DEFAULT.builds if build.launcher == XLLAMACPP)
)
"""The builds that are a library, which the default has for machines where no program runs."""


async def engine(order: EngineOrder) -> Program:
    programs = Programs(
        _places().engines,
        {},
        machine=Machine.here(),
        new_helper=_helpers("llmgw_agent.engines.install_side"),
        clock=SystemClock(),
        rng=random.Random(),
        llmgw_version="test",
        interpreter=Path(sys.executable),
    )

    # An order of which no build runs is told without a version.
    versions = {None, *(build.version for build in order.builds)}

    def brought() -> Program | None:
        asked = [e for e in programs.installed() if e.engine == LLAMACPP and e.version in versions]
        assert all(e.state != FAILED for e in asked), asked
        try:
            return programs.program(LLAMACPP)
        except LlmgwError:
            return None

    programs.order({LLAMACPP: order})
    async with _running(programs.run):
        found = await wait_until(brought, BRING_LIMIT, what="llama.cpp installed")
    assert found is not None
    return found


async def model() -> Path:
    disk = _helpers("llmgw_agent.host.disk_side")()
    weights = Weights(
        _places().weights,
        (),
        disk=disk,
        new_helper=_helpers("llmgw_agent.weights.fetch_side"),
        clock=SystemClock(),
    )
    try:
        async with _running(weights.run), asyncio.timeout(BRING_LIMIT):
            await wait_until(lambda: weights.held() is not None, what="a first look")
            found = await weights.fetch(GEMMA, lambda progress: None)
    finally:
        await disk.close()
    assert found is not None
    return found


@asynccontextmanager
async def _running(run: Callable[[], Coroutine[None, None, None]]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _helpers(module: str) -> Callable[[], Helper]:
    argv = (sys.executable, "-m", module)
    return lambda: HelperProcess(argv, environ=os.environ, grace=5.0)


def _places() -> Places:
    return Places.find("agent", environ=os.environ, root=False)


def main() -> None:
    log.setup("bring")
    line: dict[str, object]
    if sys.argv[1] == "model":
        line = {"path": str(asyncio.run(model()))}
    else:
        found = asyncio.run(engine(LLAMACPP_DEFAULT if sys.argv[1] == "engine" else LAUNCHED))
        line = {"path": str(found.path), "version": found.version, "launched": found.launched}
        line["libraries"] = [str(path) for path in found.libraries]
    print(json.dumps(line))


if __name__ == "__main__":
    main()
