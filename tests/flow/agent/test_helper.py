"""Helper processes: a call that never comes back costs a process, never the agent."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, Refused, TimedOut, Unreachable
from llmgw.model.shard import Progress
from llmgw_agent.host.helper import HelperProcess
from tests.flow.agent.helper_program import Did, Do
from tests.waiting import wait_until

PROGRAM = (sys.executable, "-m", "tests.flow.agent.helper_program")
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@pytest.fixture
async def helper() -> AsyncIterator[HelperProcess]:
    process = HelperProcess(PROGRAM, environ=ENVIRON)
    yield process
    await process.close()


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def ask(helper: HelperProcess, what: str, text: str = "", silence: float = 20.0) -> Did:
    return await helper.ask(Do(what=what, text=text), Did, silence=silence)


async def test_one_process_answers_one_request_after_the_other(helper):
    first, second = await asyncio.gather(ask(helper, "say", "a"), ask(helper, "say", "b"))
    assert (first.text, second.text) == ("a", "b")
    assert first.pid == second.pid


async def test_an_error_keeps_its_kind_its_words_and_the_process(helper):
    pid = (await ask(helper, "say")).pid
    with pytest.raises(Refused, match="no room") as caught:
        await ask(helper, "refuse")
    assert caught.value.hint == "make some"
    with pytest.raises(LlmgwError, match="ZeroDivisionError: what"):
        await ask(helper, "break", "what")
    assert (await ask(helper, "say")).pid == pid


async def test_a_helper_that_hangs_is_killed_and_replaced(helper):
    pid = (await ask(helper, "say")).pid
    with pytest.raises(TimedOut, match=r"helper_program: no answer within 0\.2 s"):
        await ask(helper, "hang", silence=0.2)
    assert not alive(pid)
    assert (await ask(helper, "say", "again")).text == "again"


async def test_a_helper_that_dies_or_talks_nonsense_is_replaced(helper):
    with pytest.raises(Unreachable, match="ended without an answer"):
        await ask(helper, "die")
    with pytest.raises(Unreachable, match="this is no answer"):
        await ask(helper, "garbage")
    assert (await ask(helper, "say", "again")).text == "again"


async def test_a_request_that_is_cancelled_takes_its_process_along(helper):
    pid = (await ask(helper, "say")).pid
    hanging = asyncio.ensure_future(ask(helper, "hang"))
    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert not alive(pid)


async def test_a_program_that_is_not_there_is_told():
    helper = HelperProcess(("/nonexistent/python", "-m", "x"), environ={})
    with pytest.raises(Unreachable, match="can't be started"):
        await ask(helper, "say")


async def test_a_helper_is_not_taken_for_an_engine_of_this_agent():
    environ = {**ENVIRON, "LLMGW_STATE": "/state", "LLMGW_SHARD": "x"}
    helper = HelperProcess(PROGRAM, environ=environ)
    assert (await ask(helper, "environ", "LLMGW_STATE")).text == "(not set)"
    await helper.close()


async def test_progress_is_told_before_the_answer():
    helper = HelperProcess((*PROGRAM, "one"), environ=ENVIRON, grace=5)
    told: list[Progress] = []
    done = await helper.ask(Do(what="say", text="x"), Did, silence=20, progress=told.append)
    assert done.text == "x"
    assert [progress.words for progress in told] == ["one", "two"]
    await helper.close()


@pytest.mark.parametrize("how", ["cancelled", "asker gone"])
async def test_what_a_helper_started_ends_with_it(tmp_path: Path, how: str):
    helper = HelperProcess((*PROGRAM, "one"), environ=ENVIRON, grace=10)
    note = tmp_path / "pid"
    asking = asyncio.ensure_future(ask(helper, "wait", str(note)))
    await wait_until(lambda: note.exists() and note.read_text(), 20)
    child = int(note.read_text())
    process = helper._process
    assert process is not None
    if how == "cancelled":
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    else:
        # An agent that is killed closes its end of the pipe without a word.
        assert process.stdin is not None
        process.stdin.close()
        with pytest.raises(Unreachable):
            await asking
    await wait_until(lambda: not alive(child), 10)
    await wait_until(lambda: process.returncode is not None, 10)
    await helper.close()


async def test_a_helper_that_ignores_sigterm_is_killed_after_its_grace():
    helper = HelperProcess(
        (
            sys.executable,
            "-c",
            "import signal,time;signal.signal(15,signal.SIG_IGN);time.sleep(99)",
        ),
        environ=ENVIRON,
        grace=0.2,
    )
    with pytest.raises(TimedOut):
        await ask(helper, "say", silence=1.0)
    assert helper._process is None


@pytest.mark.parametrize(
    "module",
    [
        "llmgw_agent.host.disk_side",
        "llmgw_agent.host.tree_side",
        "llmgw_agent.probe.nvml_side",
        "llmgw_agent.probe.bandwidth_side",
    ],
)
def test_a_helper_that_stays_loads_no_loop_no_tls_and_no_log(module):
    loads = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loads], env=ENVIRON, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert module in loaded
    assert not loaded & {"asyncio", "ssl", "_hashlib", "logging", "structlog", "rich", "httpx"}
