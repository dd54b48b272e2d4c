"""Pinned wheels from an index on loopback, through the real pip and the real uv."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut, Unreachable
from llmgw.base.system import SystemProcesses
from llmgw.model.catalog import PackageRef
from llmgw.model.shard import Progress
from llmgw_agent.host import package_index
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex
from tests.fakes.clock import FakeClock, settle
from tests.fakes.file_server import FileServer, serving
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.waiting import wait_until

HERE = Machine(architecture="x86_64", glibc="2.36")
TOOLS = {"pip": None, "uv": (sys.executable, "-m", *package_index._UV)}


@pytest.fixture
def index() -> Iterator[FileServer]:
    with serving() as server:
        yield server


def installer(index: FileServer, tool: str = "pip", **environ: str) -> PackageIndex:
    variables = {**index.environ(), **environ}
    return PackageIndex(
        SystemProcesses(), SystemClock(), environ=variables, machine=HERE, tool=TOOLS[tool]
    )


async def install(
    index: FileServer, packages: list[PackageRef], tmp_path: Path, tool: str = "pip"
) -> list[Progress]:
    told: list[Progress] = []
    await installer(index, tool).install(
        packages, tmp_path / "out", work=tmp_path / "work", what="tiny", tell=told.append
    )
    return told


@pytest.mark.parametrize("tool", ["pip", "uv"])
async def test_wheels_are_unpacked_with_their_modes_and_no_work_is_left(index, tmp_path, tool):
    packages = [
        index.add_wheel("tiny-a", {"tiny_a/run": b"#!/bin/sh\n"}, executable=("tiny_a/run",)),
        index.add_wheel("tiny-b", {"tiny_b/data": b"x" * 5}),
    ]
    await install(index, packages, tmp_path, tool)
    assert (tmp_path / "out/tiny_b/data").read_bytes() == b"x" * 5
    assert (tmp_path / "out/tiny_a/run").stat().st_mode & 0o111
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("tool", ["pip", "uv"])
async def test_another_hash_is_refused_with_both_sums_and_nothing_is_unpacked(
    index, tmp_path, tool
):
    package = index.add_wheel("tiny", {"tiny/x": b"x"})
    wrong = msgspec.structs.replace(package, sha256="0" * 64)
    with pytest.raises(Refused) as caught:
        await install(index, [wrong], tmp_path, tool)
    assert package.sha256 in caught.value.message
    assert "0" * 64 in caught.value.message
    assert not (tmp_path / "out/tiny").exists()
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("tool", ["pip", "uv"])
async def test_a_wheel_for_another_platform_is_not_found_here(index, tmp_path, tool):
    package = index.add_wheel("tiny", {"tiny/x": b"x"}, tag="py3-none-macosx_11_0_arm64")
    with pytest.raises(NotFound, match=r"no wheel of tiny==1\.0 for this platform \(x86_64"):
        await install(index, [package], tmp_path, tool)


async def test_what_a_package_depends_on_is_not_brought(index, tmp_path):
    package = index.add_wheel("tiny", {"tiny/x": b"x"})
    await install(index, [package], tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "tiny",
        "tiny-1.0.dist-info",
    ]


@pytest.mark.parametrize("tool", ["pip", "uv"])
async def test_an_index_that_is_not_there_is_unreachable(tmp_path, tool):
    with serving() as index:
        package = index.add_wheel("tiny", {"tiny/x": b"x"})
    with pytest.raises(Unreachable, match="no package index can be reached: Connection refused"):
        await install(index, [package], tmp_path, tool)


async def test_a_cancel_kills_the_installer_with_its_whole_group(index, tmp_path):
    package = index.add_wheel("tiny", {"tiny/x": b"x"})
    sleeper = ("/bin/sh", "-c", f"sleep 3600 & echo $! > {tmp_path}/pid; wait")
    slow = PackageIndex(
        SystemProcesses(), SystemClock(), environ=index.environ(), machine=HERE, tool=sleeper
    )
    working = asyncio.ensure_future(
        slow.install(
            [package], tmp_path / "out", work=tmp_path / "work", what="x", tell=lambda _: None
        )
    )
    note = tmp_path / "pid"
    await wait_until(lambda: note.exists() and note.read_text().strip())
    pid = note.read_text().strip()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert not (tmp_path / "work").exists()


async def test_a_large_wheel_is_told_in_bytes_so_far_and_in_no_percentage(
    index, tmp_path, monkeypatch
):
    import os

    package = index.add_wheel("tiny", {"tiny/x": os.urandom(8 << 20)})
    monkeypatch.setattr(package_index, "_LOOK_EVERY", 0.01)
    told = await install(index, [package], tmp_path)
    downloading = [p for p in told if p.words == "downloading tiny" and p.done_bytes]
    assert downloading
    assert all(p.total_bytes is None and p.done_bytes is not None for p in told if p.done_bytes)


class Growing:
    """An installer in memory whose download grows when the test says."""

    def __init__(self, tmp_path: Path, clock: FakeClock) -> None:
        self.processes = FakeProcesses(MemoryFiles())
        self.processes.on_start = lambda process, log: setattr(self, "log", log)
        self.log = tmp_path
        self.work = tmp_path / "work"
        self.told: list[Progress] = []
        index = PackageIndex(self.processes, clock, environ={}, machine=HERE, tool=("pip",))
        package = PackageRef(name="tiny", version="1.0", sha256="a" * 64)
        self.task = asyncio.ensure_future(
            index.install(
                [package], tmp_path / "out", work=self.work, what="tiny", tell=self.told.append
            )
        )

    def grow(self, size: int) -> None:
        (self.work / "tmp" / "tiny.whl").write_bytes(b"x" * size)

    def end(self, rc: int, said: str) -> None:
        (self.work / "log").write_text(said)
        self.processes.live()[0].end(rc)


async def test_a_download_that_stands_still_is_given_up_and_its_process_killed(
    tmp_path, clock: FakeClock
):
    growing = Growing(tmp_path, clock)
    await settle()
    await clock.advance(170)
    growing.grow(1000)
    await clock.advance(170)
    assert not growing.task.done()
    assert growing.told[-1].done_bytes == 1000
    await clock.advance(20)
    with pytest.raises(TimedOut, match="no byte came for 180 s"):
        await growing.task
    process = next(iter(growing.processes.table.values()))
    assert process.signals == [signal.SIGKILL]


async def test_an_installer_that_fails_is_told_by_its_last_error(tmp_path, clock: FakeClock):
    growing = Growing(tmp_path, clock)
    await settle()
    growing.end(1, "ERROR: No space left on device\n")
    await clock.advance(1)
    with pytest.raises(Refused, match="the disk is full"):
        await growing.task
    again = Growing(tmp_path, clock)
    await settle()
    again.end(2, "ERROR: something new\n")
    await clock.advance(1)
    with pytest.raises(LlmgwError, match="something new"):
        await again.task


async def test_without_pip_and_uv_it_says_what_to_install(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    index = PackageIndex(FakeProcesses(MemoryFiles()), clock, environ={}, machine=HERE)
    package = PackageRef(name="tiny", version="1.0", sha256="a" * 64)
    with pytest.raises(Refused, match="neither pip nor uv") as caught:
        await index.install(
            [package], tmp_path / "o", work=tmp_path / "w", what="x", tell=lambda _: None
        )
    assert caught.value.hint is not None


async def test_the_installer_is_not_told_what_is_llmgws_own(index, tmp_path):
    package = index.add_wheel("tiny", {"tiny/x": b"x"})
    printer = ("/bin/sh", "-c", f"env > {tmp_path}/env; exit 1")
    environ = {**index.environ(), "LLMGW_TOKEN": "secret", "PYTHONPATH": "/x", "PIP_USER": "1"}
    spy = PackageIndex(
        SystemProcesses(), SystemClock(), environ=environ, machine=HERE, tool=printer
    )
    with pytest.raises(LlmgwError):
        await spy.install(
            [package], tmp_path / "out", work=tmp_path / "work", what="x", tell=lambda _: None
        )
    seen = (tmp_path / "env").read_text()
    assert "PIP_INDEX_URL" in seen
    assert not any(name in seen for name in ("LLMGW_TOKEN", "PYTHONPATH", "PIP_USER"))
    assert f"TMPDIR={tmp_path}/work" in seen
