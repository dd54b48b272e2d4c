"""`llmgw agent` at its start: what it refuses at once, and what it keeps of what it was told."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from llmgw.base.errors import Refused
from llmgw.model.node import NodeWarning
from llmgw_agent.config import AgentConfig
from llmgw_agent.main import run
from tests.agents import python_path
from tests.flow.agent.control import WatchedPlace, watched
from tests.waiting import wait_until


@pytest.mark.parametrize("which", ["engines_dir", "weights_dir"])
def test_a_directory_that_it_may_not_write_is_refused_before_anything_starts(
    nobodys: Path, which: str
) -> None:
    for name in ("state_dir", "engines_dir", "weights_dir"):
        (nobodys / name).mkdir(mode=0o700)
    path = nobodys / which
    path.chmod(0o500)
    config = AgentConfig(
        state_dir=str(nobodys / "state_dir"),
        engines_dir=str(nobodys / "engines_dir"),
        weights_dir=str(nobodys / "weights_dir"),
    )
    with pytest.raises(Refused) as caught:
        run(config)
    assert caught.value.message == f"{path}: mode 500 keeps its own user out"
    assert caught.value.hint == f"run: chmod u+rwx {path}"


async def started(place: WatchedPlace, directory: Path, *flags: str) -> tuple[NodeWarning, ...]:
    """Start an agent, and end it when it registered; return what it warned of."""
    before = len(place.control.registers())
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "llmgw", "agent", "--config", str(directory / "agent.yaml"), *flags),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": python_path()},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await wait_until(lambda: len(place.control.registers()) > before, what="a register")
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
    inventory = place.control.registers()[-1].inventory
    assert inventory is not None
    return inventory.warnings or ()


async def test_a_name_that_was_chosen_once_is_no_warning_and_one_that_was_found_is(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as place:
        identity = place.issue("node", "chosen-1").certificate
        config = {
            "state_dir": str(identity.parent),
            "weights_dir": str(tmp_path / "weights"),
            "engines_dir": str(tmp_path / "engines"),
            "control_planes": [place.address],
            "measure_bandwidth": False,
        }
        (tmp_path / "agent.yaml").write_text(json.dumps(config))
        found = await started(place, tmp_path)
        hostname = socket.gethostname().lower()
        words = (
            f"its certificate names it chosen-1, its host name is {hostname} now; "
            "meant so: start once with --node chosen-1"
        )
        assert NodeWarning(subject="node", words=words) in found
        assert await started(place, tmp_path, "--node", "chosen-1") == ()
        assert await started(place, tmp_path) == ()
