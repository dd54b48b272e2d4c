"""Looking at this machine's processes: what can't be seen is not taken for gone."""

import errno
import os
import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llmgw.base import procfs
from llmgw.base.errors import TimedOut
from llmgw.base.system import SystemProcesses
from llmgw.base.world import ProcessSeen
from tests.waiting import ask_until, wait_until


@contextmanager
def no_more_files() -> Iterator[None]:
    """Leave this process not one file to open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_that_lives_is_seen_and_one_that_is_gone_is_not() -> None:
    processes = SystemProcesses()
    seen = processes.look(os.getpid())
    assert seen is not None
    assert seen.group == os.getpgrp()
    assert processes.group_alive(os.getpgrp())
    assert processes.look(2**22 + 1) is None
    assert not processes.group_alive(2**22 + 1)


async def test_without_a_file_to_open_no_process_counts_as_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = SystemProcesses()
    # The list of pids is there already when the limit is met between two of them.
    monkeypatch.setattr("llmgw.base.procfs.pids", lambda: [os.getpid()])
    for look in (
        lambda: processes.look(os.getpid()),
        lambda: processes.group_alive(os.getpgrp()),
    ):
        with no_more_files(), pytest.raises(OSError, match="Too many open files") as raised:
            look()
        assert raised.value.errno == errno.EMFILE
    for asked in (
        lambda: processes.with_environ("PATH", os.environ["PATH"]),
        lambda: processes.inspect(os.getpid()),
    ):
        with no_more_files(), pytest.raises(OSError, match="Too many open files") as raised:
            await asked()
        assert raised.value.errno == errno.EMFILE


class Hanging:
    """Reads what processes were started with; of some it never comes back, until it is let go."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        self.asked: list[int] = []
        self.let_go = threading.Event()

    def read(self, pid: int, mark: bytes) -> ProcessSeen | None:
        self.asked.append(pid)
        if pid in self.pids:
            self.let_go.wait(30)
        return procfs.marked(pid, mark)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(procfs, "PATIENCE", 0.5)
    one = Hanging()
    yield one
    one.let_go.set()


def started(mark: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "3600"], env={"LLMGW_TEST": mark, "PATH": "/usr/bin:/bin"})


async def test_a_process_whose_memory_hangs_keeps_nobody_from_seeing_the_others(
    hanging: Hanging, tmp_path: Path
) -> None:
    mark = str(tmp_path)
    children = [started(mark), started(mark)]
    try:
        memories = procfs.Memories(hanging.read)
        hanging.pids = {children[0].pid}
        found = await memories.marked("LLMGW_TEST", mark)
        assert [one.pid for one in found] == [children[1].pid]
        # It is not asked again while it hangs: there is no heap of threads.
        hanging.asked.clear()
        threads = threading.active_count()
        for _ in range(3):
            await memories.marked("LLMGW_TEST", mark)
        assert children[0].pid not in hanging.asked
        await wait_until(lambda: threading.active_count() <= threads, what="no more threads")
        with pytest.raises(TimedOut, match=f"pid {children[0].pid}: its memory can't be read"):
            await memories.of(children[0].pid)
        hanging.pids = set()
        hanging.let_go.set()

        async def all_are_seen() -> bool:
            seen = {one.pid for one in await memories.marked("LLMGW_TEST", mark)}
            return seen == {child.pid for child in children}

        await ask_until(all_are_seen)
    finally:
        for child in children:
            child.kill()
            child.wait()


async def test_a_process_that_was_known_before_its_memory_hung_still_counts(
    hanging: Hanging, tmp_path: Path
) -> None:
    mark = str(tmp_path)
    child = started(mark)
    try:
        memories = procfs.Memories(hanging.read)
        before = await memories.marked("LLMGW_TEST", mark)
        assert [one.pid for one in before] == [child.pid]
        hanging.pids = {child.pid}
        assert await memories.marked("LLMGW_TEST", mark) == before
        assert await memories.of(child.pid) == before[0]
    finally:
        child.kill()
        child.wait()
    assert await memories.marked("LLMGW_TEST", mark) == ()
