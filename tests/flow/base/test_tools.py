"""Tools with real processes: bounded in time and size, and nothing of them is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from llmgw.base import procfs
from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.base.system import SystemProcesses
from llmgw.base.world import Done
from tests.agents import python_path
from tests.waiting import wait_for, wait_until

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run coroutines on both kinds of loop: agents use the second one."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


def shell(words: str, timeout: float = 20.0, **more: Any) -> Coroutine[Any, Any, Done]:
    return SystemProcesses().run(["/bin/sh", "-c", words], timeout=timeout, **more)


def gone(pid: int) -> bool:
    return procfs.there(pid) is None


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[int]:
    """Return the children of this process, those that nobody waited for included."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in found.split()}


def test_what_a_tool_prints_and_how_it_ends_is_told(on_loop: Run) -> None:
    done = on_loop(shell("echo out; echo err >&2; exit 3"))
    assert done == Done(rc=3, out="out\n", err="err\n")
    assert on_loop(shell("kill -SEGV $$")).rc == -signal.SIGSEGV


def test_a_tool_has_the_environment_and_the_directory_that_it_was_given(
    on_loop: Run, tmp_path: Path
) -> None:
    env = {"PATH": "/usr/bin:/bin", "ONE": "1 = one\n", "LC_ALL": "C"}
    done = on_loop(SystemProcesses().run(["env", "-0"], timeout=20, env=env, cwd=tmp_path))
    told = dict(pair.split("=", 1) for pair in done.out.split("\0") if pair)
    assert told == env
    assert on_loop(shell("pwd", cwd=tmp_path)).out == f"{tmp_path}\n"
    # Python ignores it, and a program that inherits that never ends by it.
    assert on_loop(shell("kill -PIPE $$")).rc == -signal.SIGPIPE


def test_a_program_that_is_not_there_or_not_to_be_run_is_told(on_loop: Run, tmp_path: Path) -> None:
    processes = SystemProcesses()
    with pytest.raises(NotFound, match=r"^no-such-tool: no such program$"):
        on_loop(processes.run(["no-such-tool"], timeout=20))
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(NotFound, match="may not be run by this user"):
        on_loop(processes.run([str(file)], timeout=20))
    with pytest.raises(OSError, match="No such file or directory") as raised:
        on_loop(processes.run(["true"], timeout=20, cwd=tmp_path / "nowhere"))
    assert raised.value.filename == str(tmp_path / "nowhere")


def test_a_tool_that_prints_without_end_is_ended_and_its_text_is_not_kept(
    on_loop: Run, tmp_path: Path
) -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with pytest.raises(Unreadable, match=r"^/bin/sh printed more than 4 MiB: ended$"):
            on_loop(shell(f"echo $$ > {tmp_path}/pid; yes & yes; wait"))
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert most < 16 << 20
    group = int((tmp_path / "pid").read_text())
    wait_for(lambda: not SystemProcesses().group_alive(group), what="its group is gone")


def test_both_outputs_count_together_and_what_just_fits_is_taken(on_loop: Run) -> None:
    words = "head -c 3000 /dev/zero; head -c 3000 /dev/zero >&2"
    done = on_loop(shell(words, most=6000))
    assert (len(done.out), len(done.err)) == (3000, 3000)
    with pytest.raises(Unreadable, match="printed more than"):
        on_loop(shell(words, most=5999))


def test_what_a_tool_printed_counts_though_its_child_holds_the_pipe(
    on_loop: Run, tmp_path: Path
) -> None:
    done = on_loop(shell(f"echo told; sleep 3600 & echo $! > {tmp_path}/pid"))
    assert done == Done(rc=0, out="told\n", err="")
    wait_for(lambda: gone(int((tmp_path / "pid").read_text())), what="its child is gone")


def test_what_a_child_writes_shortly_after_the_tool_ended_is_taken(on_loop: Run) -> None:
    assert on_loop(shell("(sleep 0.2; echo later) & exit 0")).out == "later\n"


def test_a_tool_that_takes_too_long_is_ended_with_its_group(on_loop: Run, tmp_path: Path) -> None:
    with pytest.raises(TimedOut, match=r"^/bin/sh: no end within 2 s$"):
        on_loop(shell(f"sleep 3600 & echo $! > {tmp_path}/pid; wait", timeout=2))
    wait_for(lambda: gone(int((tmp_path / "pid").read_text())), what="its child is gone")


def test_fifty_runs_leave_no_handle_no_zombie_and_no_child(on_loop: Run, tmp_path: Path) -> None:
    async def some(count: int) -> None:
        processes = SystemProcesses()
        for number in range(count):
            tool, most, timeout = (
                ("echo x", 4096, 20.0),
                ("sleep 3600 & exit 1", 4096, 20.0),
                ("yes", 4096, 20.0),
                ("sleep 3600", 4096, 0.1),
                ("exec no-such-program", 4096, 20.0),
            )[number % 5]
            with suppress(TimedOut, Unreadable):
                await processes.run(["/bin/sh", "-c", tool], timeout=timeout, most=most)

    before_children = children()
    on_loop(some(5))
    before = handles()
    on_loop(some(50))
    assert handles() == before
    assert children() == before_children


async def test_a_run_that_is_cancelled_takes_its_group_along(tmp_path: Path) -> None:
    before = handles()
    note = tmp_path / "pid"
    running = asyncio.ensure_future(shell(f"echo $$ > {note}; sleep 3600"))
    await wait_until(lambda: note.exists() and note.read_text().strip())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gone(int(note.read_text()))
    assert handles() == before


async def test_a_tool_that_can_not_be_killed_is_left_alone_and_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes = SystemProcesses()
    argv = ["/bin/sh", "-c", f"echo $$ >> {tmp_path}/pids; sleep 3600"]
    with monkeypatch.context() as unkillable:
        unkillable.setattr("llmgw.base.tools.os.killpg", lambda group, signal_: None)
        with pytest.raises(TimedOut, match=r"no end within 2 s; pid \d+ hangs in the kernel"):
            await processes.run(argv, timeout=2)
        (pid,) = (tmp_path / "pids").read_text().split()
        for _ in range(3):
            with pytest.raises(TimedOut, match=f"not started, pid {pid} of it still hangs"):
                await processes.run(argv, timeout=0.5)
    assert (tmp_path / "pids").read_text().split() == [pid]
    # Another command of the same program is one that may not hang.
    assert (await processes.run(["/bin/sh", "-c", "echo x"], timeout=20)).out == "x\n"
    os.killpg(int(pid), signal.SIGKILL)
    await wait_until(lambda: gone(int(pid)))
    with pytest.raises(TimedOut, match="no end within"):
        await processes.run(argv, timeout=2)
    assert len((tmp_path / "pids").read_text().split()) == 2


async def test_only_some_processes_of_one_program_may_hang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes = SystemProcesses()
    with monkeypatch.context() as unkillable:
        unkillable.setattr("llmgw.base.tools.os.killpg", lambda group, signal_: None)
        for number in range(4):
            words = f"echo $$ > {tmp_path}/{number}; sleep 3600"
            with pytest.raises(TimedOut, match="hangs in the kernel"):
                await processes.run(["/bin/sh", "-c", words], timeout=2)
        with pytest.raises(TimedOut, match="not started"):
            await processes.run(["/bin/sh", "-c", "echo x"], timeout=20)
    for number in range(4):
        os.killpg(int((tmp_path / str(number)).read_text()), signal.SIGKILL)
    await wait_until(lambda: all(gone(int((tmp_path / str(n)).read_text())) for n in range(4)))
    assert (await processes.run(["/bin/sh", "-c", "echo x"], timeout=20)).out == "x\n"


def owner(what: str, place: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.flow.base.owner", what, str(place)],
        env={"PYTHONPATH": python_path(), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("what", ["tool", "helper", "installer"])
def test_a_killed_agent_leaves_nothing_that_hangs_or_is_stopped(
    tmp_path: Path, what: str, stopped: bool
) -> None:
    agent = owner(what, tmp_path)
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30))
    try:
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        agent.kill()
        agent.wait()
        wait_for(lambda: gone(pid), 5, what=f"the {what} is gone")
    finally:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def test_an_engine_outlives_its_agent(tmp_path: Path) -> None:
    agent = owner("engine", tmp_path)
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 30))
    agent.kill()
    agent.wait()
    try:
        # Were it tied, it would have got its signal before its parent could be waited for.
        assert not gone(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
