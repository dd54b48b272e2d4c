"""Locks between processes end with the process that holds them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw.base.errors import Refused
from llmgw_agent.host.lock import only_one, try_lock
from llmgw_agent.host.lock_wait import waited_for
from tests.fakes.clock import FakeClock, settle
from tests.waiting import wait_for

HOLDER = """
import sys, pathlib
from llmgw_agent.host.lock import only_one
held = only_one(pathlib.Path(sys.argv[1]), "agent")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "agent.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_agent_on_the_same_state_is_refused_with_the_firsts_pid(holder, tmp_path):
    with pytest.raises(Refused, match=rf"another agent runs on .* \(pid {holder.pid}\)") as caught:
        only_one(tmp_path / "agent.lock", "agent")
    assert caught.value.hint is not None


def test_a_lock_of_a_process_that_was_killed_is_free(holder, tmp_path):
    holder.kill()
    holder.wait()
    only_one(tmp_path / "agent.lock", "agent").release()


def test_a_lock_is_not_inherited_by_what_its_holder_starts(tmp_path):
    held = try_lock(tmp_path / "x.lock")
    assert held is not None
    child = subprocess.Popen(["sleep", "3600"], close_fds=False)
    try:
        held.release()
        again = wait_for(lambda: try_lock(tmp_path / "x.lock"), 2)
        again.release()
    finally:
        child.kill()
        child.wait()


async def test_one_who_waits_gets_the_lock_when_it_is_free(tmp_path, clock: FakeClock):
    import asyncio

    held = try_lock(tmp_path / "x.lock")
    assert held is not None
    waits: list[None] = []
    inside = asyncio.Event()

    async def work() -> None:
        async with waited_for(tmp_path / "x.lock", clock, lambda: waits.append(None)):
            inside.set()

    task = asyncio.ensure_future(work())
    await settle()
    await clock.advance(5)
    assert waits
    assert not inside.is_set()
    held.release()
    await clock.advance(1)
    assert inside.is_set()
    await task
