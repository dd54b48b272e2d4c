"""What /proc says of processors, memory and processes."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cpuinfo import read_cpuinfo
from llmgw_agent.parse.meminfo import read_meminfo
from llmgw_agent.parse.os_release import read_os_release
from llmgw_agent.parse.proc_stat import (
    CpuTimes,
    busy_percent,
    read_loadavg,
    read_process,
    read_stat,
)

PROC = Path(__file__).parents[3] / "fixtures" / "proc"


def text(name: str) -> str:
    return (PROC / name).read_text()


def test_a_laptops_processor_has_avx2_and_no_avx512():
    seen = read_cpuinfo(text("cpuinfo-i7-8650u.txt"))
    assert seen.model == "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"
    assert seen.extensions is not None
    assert "avx2" in seen.extensions
    assert not any(name.startswith(("avx512", "amx")) for name in seen.extensions)
    assert seen.x86


def test_a_server_processor_shows_avx512_and_amx():
    seen = read_cpuinfo(text("cpuinfo-model_not_supported.txt"))
    assert {"avx2", "avx512", "amx", "amx-bf16"} <= set(seen.extensions or ())


def test_an_arm_processor_has_neon_and_sve_and_is_not_expected_to_have_avx2():
    seen = read_cpuinfo(text("cpuinfo-grace-aarch64.txt"))
    assert {"neon", "sve", "sve2", "i8mm", "bf16"} <= set(seen.extensions or ())
    assert seen.model == "arm 0x41 part 0xd4f"
    assert not seen.x86


@pytest.mark.parametrize("name", ["cpuinfo-qemu64-no-avx2.txt", "cpuinfo-vendor_not_supported.txt"])
def test_a_processor_without_avx2_says_so(name):
    seen = read_cpuinfo(text(name))
    assert seen.x86
    assert "avx2" not in (seen.extensions or ())


def test_available_memory_that_a_kernel_does_not_say_is_none_not_zero():
    memory = read_meminfo(text("meminfo-ne.txt"))
    assert memory.total_bytes == 3742148 * 1024
    assert memory.available_bytes is None


def test_available_memory_is_read_where_it_is_said():
    memory = read_meminfo("MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:  0 kB\n")
    assert memory.available_bytes == 0


def test_meminfo_without_a_total_is_unreadable():
    with pytest.raises(Unreadable, match="MemTotal"):
        read_meminfo("MemFree: 12 kB\n")


def test_use_between_two_readings_of_a_busy_machine():
    before, after = read_stat(text("stat-first.txt")), read_stat(text("stat-second.txt"))
    assert before.cpus == 2
    # 403 busy ticks of 403: no idle tick passed between the two.
    assert busy_percent(before, after) == 100.0


def test_no_time_between_two_readings_is_no_share():
    times = read_stat(text("stat-first.txt"))
    assert busy_percent(times, times) is None


def test_a_counter_that_stepped_back_keeps_the_share_in_its_bounds():
    before = CpuTimes(busy=100, total=200, cpus=1)
    assert busy_percent(before, CpuTimes(busy=90, total=210, cpus=1)) == 0.0


def test_load_is_that_of_the_last_minute():
    assert read_loadavg(text("loadavg-here.txt")) == 33.89
    assert read_loadavg(text("loadavg-ne.txt")) == 0.21


def test_a_process_whose_name_holds_brackets_and_blanks_is_read():
    line = "42 (a) b (c)) S 1 40 39 0 -1 4194560 1 2 3 4 11 7 1 1 20 0 3 0 99 1000 25 184467"
    use = read_process(line)
    assert (use.pid, use.state, use.group, use.session) == (42, "S", 40, 39)
    assert (use.ticks, use.pages) == (18, 25)


def test_the_systems_name_is_the_one_for_people():
    assert read_os_release('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n') == (
        "Debian GNU/Linux 12 (bookworm)"
    )
    assert read_os_release("# comment\nNAME='Some \"OS\"'\n") == 'Some "OS"'


def test_an_os_release_without_a_name_is_unreadable():
    with pytest.raises(Unreadable):
        read_os_release("VERSION_ID=12\n")


READERS = (read_cpuinfo, read_meminfo, read_stat, read_loadavg, read_process, read_os_release)


@pytest.mark.parametrize("reader", READERS)
@given(noise=st.text())
def test_no_text_makes_a_reader_raise_anything_but_unreadable(reader, noise):
    with suppress(Unreadable):
        reader(noise)


@pytest.mark.parametrize("reader", READERS)
@given(at=st.integers(0, 3000), noise=st.text(max_size=20))
def test_a_file_with_a_part_replaced_raises_nothing_but_unreadable(reader, at, noise):
    whole = text("cpuinfo-i7-8650u.txt")[:1500] + text("meminfo-ne.txt") + text("stat-first.txt")
    with suppress(Unreadable):
        reader(whole[:at] + noise + whole[at + 7 :])
