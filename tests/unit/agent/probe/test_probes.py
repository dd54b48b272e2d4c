"""Each probe on a machine in memory: what it finds, and what a missing source costs."""

import asyncio
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.model.node import Heartbeat
from llmgw_agent.host.disk import Space, SpaceOf
from llmgw_agent.host.machine import Machine
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.host import HostProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.shards import ShardsProbe
from tests.fakes.clock import FakeClock, settle
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import MemoryFiles
from tests.only import only

PROC = Path(__file__).parents[3] / "fixtures" / "proc"
MACHINE = Machine(architecture="x86_64", glibc="2.36")
MOUNTS = (
    "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
    "30 22 0:26 / /srv/filer rw - nfs4 filer:/models rw\n"
    "31 22 254:1 /b /srv/bind rw - ext4 /dev/vda1 rw\n"
)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def put(files: MemoryFiles, path: str, text: str | bytes) -> None:
    files.content[Path(path)] = text.encode() if isinstance(text, str) else text


async def test_memory_that_grows_is_seen_at_the_next_reading(files, clock):
    probe = MemoryProbe(files, clock)
    put(files, "/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
    await probe.read()
    put(files, "/proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 400 kB\n")
    await probe.read()
    memory = probe.memory.fresh
    assert memory is not None
    assert memory.total_bytes == 2000 * 1024


async def test_a_reading_older_than_a_minute_is_left_out_not_repeated(files, clock: FakeClock):
    probe = MemoryProbe(files, clock)
    put(files, "/proc/meminfo", "MemTotal: 1000 kB\n")
    await probe.read()
    await clock.advance(60)
    assert probe.memory.fresh is not None
    await clock.advance(1)
    assert probe.memory.fresh is None
    assert probe.age == 61


async def test_use_of_the_processors_needs_two_readings(files, clock):
    probe = CpuProbe(files, clock)
    put(files, "/proc/stat", (PROC / "stat-first.txt").read_bytes())
    put(files, "/proc/loadavg", (PROC / "loadavg-here.txt").read_bytes())
    assert await probe.read() == "2 processors"
    first = probe.use.fresh
    assert first is not None
    assert (first.cpus, first.busy_percent, first.load) == (2, None, 33.89)
    put(files, "/proc/stat", (PROC / "stat-second.txt").read_bytes())
    await probe.read()
    second = probe.use.fresh
    assert second is not None
    assert second.busy_percent == 100.0


async def test_a_load_that_can_not_be_read_costs_the_load_alone_and_says_so(files, clock):
    probe = CpuProbe(files, clock)
    put(files, "/proc/stat", (PROC / "stat-first.txt").read_bytes())
    put(files, "/proc/loadavg", "no load here")
    with pytest.raises(Unreadable, match="no load here"):
        await probe.read()
    put(files, "/proc/stat", (PROC / "stat-second.txt").read_bytes())
    with pytest.raises(Unreadable):
        await probe.read()
    use = probe.use.fresh
    assert use is not None
    assert (use.cpus, use.busy_percent, use.load) == (2, 100.0, None)


async def test_one_processor_is_one(files, clock):
    put(files, "/proc/stat", "cpu  1 0 1 8 0 0 0 0 0 0\ncpu0 1 0 1 8 0 0 0 0 0 0\n")
    put(files, "/proc/loadavg", "0.10 0.10 0.10 1/1 1")
    assert await CpuProbe(files, clock).read() == "1 processor"


async def test_a_host_without_any_file_is_still_a_host(files, clock):
    probe = HostProbe(files, clock, MACHINE)
    await probe.read()
    host = probe.host.last
    assert host is not None
    assert (host.architecture, host.os, host.cpu_model) == ("x86_64", None, None)
    assert probe.warnings == ()


async def test_a_host_tells_system_kernel_and_boot(files, clock):
    put(files, "/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    put(files, "/proc/sys/kernel/osrelease", "6.18.0\n")
    put(files, "/proc/sys/kernel/random/boot_id", "4d2e\n")
    put(files, "/proc/cpuinfo", (PROC / "cpuinfo-i7-8650u.txt").read_bytes())
    probe = HostProbe(files, clock, MACHINE)
    await probe.read()
    host = probe.host.last
    assert host is not None
    assert (host.os, host.kernel, host.boot_id) == (
        "Debian GNU/Linux 12 (bookworm)",
        "6.18.0",
        "4d2e",
    )
    assert "avx2" in (host.cpu_extensions or ())
    assert probe.warnings == ()


async def test_a_virtual_machine_without_avx2_is_warned_of_with_the_fix(files, clock):
    put(files, "/proc/cpuinfo", (PROC / "cpuinfo-qemu64-no-avx2.txt").read_bytes())
    probe = HostProbe(files, clock, MACHINE)
    await probe.read()
    (warning,) = probe.warnings
    assert "AVX2" in warning.words
    assert "host" in warning.words


async def test_an_arm_machine_is_not_warned_of_avx2(files, clock):
    put(files, "/proc/cpuinfo", (PROC / "cpuinfo-grace-aarch64.txt").read_bytes())
    probe = HostProbe(files, clock, Machine(architecture="aarch64", glibc="2.36"))
    await probe.read()
    assert probe.warnings == ()


def disks(files: MemoryFiles, clock: FakeClock, paths: list[str], helpers: list[FakeHelper]):
    made = iter(helpers)
    return DisksProbe([Path(p) for p in paths], files, lambda: next(made), clock)


def space(request: SpaceOf) -> Space:
    return Space(real=request.path, total_bytes=1000, free_bytes=400)


async def test_directories_of_one_disk_are_one_pool_and_a_filer_is_shared(files, clock):
    put(files, "/proc/self/mountinfo", MOUNTS)
    paths = ["/var/weights", "/srv/bind/engines", "/srv/filer/models"]
    probe = disks(files, clock, paths, [FakeHelper(space)])
    await probe.read()
    found = probe.filesystems.last
    assert found is not None
    local, filer = found
    assert (local.mount, local.type, local.shared) == ("/", "ext4", False)
    assert local.directories == ("/var/weights", "/srv/bind/engines")
    assert (filer.mount, filer.type, filer.shared) == ("/srv/filer", "nfs4", True)
    assert probe.shared("/srv/filer/models/a") is True
    assert probe.shared("/var/weights") is False


async def test_a_missing_directory_is_skipped_and_an_unknown_mount_stands_for_itself(files, clock):
    def some(request: SpaceOf) -> Space:
        return Space() if request.path == "/gone" else space(request)

    probe = disks(files, clock, ["/gone", "/here"], [FakeHelper(some)])
    await probe.read()
    here = only(probe.filesystems.last)
    assert (here.mount, here.type, here.shared) == ("/here", None, None)


async def test_a_filer_that_hangs_costs_itself_until_it_answers_again(files, clock: FakeClock):
    put(files, "/proc/self/mountinfo", MOUNTS)

    def shared(request: SpaceOf) -> Space | Exception:
        return silent(request) if request.path.startswith("/srv") else space(request)

    own = FakeHelper(silent)
    paths = ["/var/weights", "/srv/filer"]
    probe = disks(files, clock, paths, [FakeHelper(space), own])
    await probe.read()
    probe._helper.answering = shared
    with pytest.raises(Unreadable, match="/srv/filer"):
        await probe.read()
    assert len(probe.filesystems.last or ()) == 2
    await clock.advance(61)
    with pytest.raises(Unreadable):
        await probe.read()
    # Asked through a helper of its own by now, and too old to be repeated.
    assert own.asked == [SpaceOf(path="/srv/filer")]
    assert [f.mount for f in probe.filesystems.last or ()] == ["/"]
    own.answering = space
    await probe.read()
    assert len(probe.filesystems.last or ()) == 2


async def test_directories_that_hang_do_not_wait_for_each_other(files, clock: FakeClock):
    put(files, "/proc/self/mountinfo", MOUNTS)
    hangs = {"/srv/filer", "/srv/other"}

    def some(request: SpaceOf) -> Space | LlmgwError:
        return silent(request) if request.path in hangs else space(request)

    own = [FakeHelper(some), FakeHelper(some)]
    probe = disks(files, clock, ["/srv/filer", "/srv/other", "/var"], [FakeHelper(some), *own])
    with pytest.raises(Unreadable, match=r"/srv/filer.*; /srv/other"):
        await probe.read()
    for helper in own:
        helper.hold()
    reading = asyncio.ensure_future(probe.read())
    await settle()
    # Both are asked while neither has answered, and so was what does not hang.
    assert [only(helper.asked) for helper in own] == [SpaceOf(path=p) for p in sorted(hangs)]
    assert probe._spaces["/var"].age == 0
    hangs.clear()
    for helper in own:
        helper.release()
    assert await reading == "2 filesystems"


async def test_one_filesystem_is_one(files, clock):
    assert await disks(files, clock, ["/var"], [FakeHelper(space)]).read() == "1 filesystem"


def stat(pid: int, group: int, ticks: int, pages: int, state: str = "S") -> str:
    before = f"{pid} (llama-server) {state} 1 {group} {group} 0 -1 0 0 0 0 0"
    return f"{before} {ticks} 0 0 0 20 0 1 0 9 0 {pages} 0"


async def test_use_of_an_engine_is_that_of_its_whole_group(files, clock: FakeClock):
    probe = ShardsProbe(
        lambda: {100: ("tiny-abc123", 0)}, files, clock, ticks_per_second=100, page_bytes=4096
    )
    put(files, "/proc/100/stat", stat(100, 100, 1000, 10))
    put(files, "/proc/101/stat", stat(101, 100, 50, 5))
    put(files, "/proc/200/stat", stat(200, 200, 9999, 999))
    put(files, "/proc/self/stat", "no pid")
    await probe.read()
    first = only(probe.use.fresh)
    assert (first.cpu_cores, first.memory_bytes) == (None, 15 * 4096)
    await clock.advance(5)
    put(files, "/proc/100/stat", stat(100, 100, 1900, 10))
    put(files, "/proc/101/stat", stat(101, 100, 150, 5))
    put(files, "/proc/102/stat", stat(102, 100, 0, 1))
    await probe.read()
    second = only(probe.use.fresh)
    assert (second.cpu_cores, second.memory_bytes) == (2.0, 16 * 4096)


async def test_a_pid_that_another_process_took_counts_from_its_own_beginning(files, clock):
    probe = ShardsProbe(
        lambda: {100: ("a", 0)}, files, clock, ticks_per_second=100, page_bytes=4096
    )
    put(files, "/proc/100/stat", stat(100, 100, 1000, 1))
    put(files, "/proc/101/stat", stat(101, 100, 5000, 1))
    await probe.read()
    await clock.advance(1)
    put(files, "/proc/101/stat", stat(101, 100, 20, 1))
    await probe.read()
    use = only(probe.use.fresh)
    assert use.cpu_cores == 0.2


async def test_an_engine_whose_processes_are_gone_has_no_use_rather_than_none_at_all(files, clock):
    probe = ShardsProbe(lambda: {100: ("a", 1)}, files, clock)
    put(files, "/proc/100/stat", stat(100, 100, 5, 5, state="Z"))
    await probe.read()
    use = only(probe.use.fresh)
    assert (use.rank, use.cpu_cores, use.memory_bytes) == (1, None, None)


async def test_use_of_engines_older_than_a_minute_is_left_out(files, clock: FakeClock):
    probe = ShardsProbe(lambda: {100: ("a", 0)}, files, clock, ticks_per_second=100, page_bytes=1)
    put(files, "/proc/100/stat", stat(100, 100, 5, 5))
    await probe.read()
    beat = Heartbeat(sequence=1)
    assert only(probe.onto_heartbeat(beat).shards).memory_bytes == 5
    await clock.advance(61)
    assert probe.onto_heartbeat(beat).shards is None
