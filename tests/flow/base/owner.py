"""A process that owns another one, so that a test can kill it: a tool, a helper, or an engine."""

import os
import sys
from functools import partial
from pathlib import Path

import uvloop

from llmgw.base.system import SystemProcesses
from llmgw_agent.host.helper import HelperProcess
from tests.flow.agent.helper_program import Did, Do
from tests.waiting import wait_until

SLEEPS = ["/bin/sh", "-c", "exec sleep 3600"]


async def main(what: str, place: Path) -> None:
    """Start it, and stay."""
    processes = SystemProcesses()
    match what:
        case "tool":
            note = f"echo $$ > {place}/new; mv {place}/new {place}/pid; exec sleep 3600"
            await processes.run(["/bin/sh", "-c", note], timeout=3600)
        case "helper":
            argv = (sys.executable, "-m", "tests.flow.agent.helper_program")
            helper = HelperProcess(argv, environ=os.environ)
            _tell(place, (await helper.ask(Do(what="say"), Did, silence=30)).pid)
            await helper.ask(Do(what="hang"), Did, silence=3600)
        case _:
            log, outlives = place / "log", what == "engine"
            child = await processes.start(SLEEPS, env={}, log=log, outlives=outlives)
            await wait_until(partial(_sleeps, child.pid))
            _tell(place, child.pid)
            await child.wait()


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")


def _tell(place: Path, pid: int) -> None:
    (place / "new").write_text(str(pid))
    (place / "new").rename(place / "pid")


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2])))
