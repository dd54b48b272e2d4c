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
    Load,
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
    # model name	: Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz
    assert seen.model == "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"
    assert seen.cpus == 8  # processor	: 0 … processor	: 7
    # flags		: … ssse3 sdbg fma cx16 … xsave avx f16c rdrand … hle avx2 smep …
    assert seen.extensions == ("fma", "avx", "f16c", "avx2")
    assert seen.x86 is True


def test_a_server_processor_shows_avx512_and_amx():
    seen = read_cpuinfo(text("cpuinfo-model_not_supported.txt"))
    # model name      : Intel(R) Xeon(R) Platinum 8480+
    assert seen.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert seen.cpus == 1  # processor       : 0
    # flags           : … fma … avx f16c … avx2 … avx512f … avx_vnni avx512_bf16 … avx512_vnni …
    #                   amx_bf16 avx512_fp16 amx_tile amx_int8 …
    assert seen.extensions == (
        *("fma", "avx", "f16c", "avx2", "avx512", "avx-vnni", "avx512-bf16", "avx512-vnni"),
        *("amx-bf16", "amx", "amx-int8"),
    )


def test_an_arm_processor_has_neon_and_sve_and_is_not_expected_to_have_avx2():
    seen = read_cpuinfo(text("cpuinfo-grace-aarch64.txt"))
    # Features	: fp asimd … sve … sve2 … svei8mm svebf16 i8mm bf16 dgh bti
    assert seen.extensions == ("neon", "sve", "sve2", "i8mm", "bf16")
    # CPU implementer	: 0x41      CPU part	: 0xd4f      no "model name", no "flags"
    assert seen.model == "arm 0x41 part 0xd4f"
    assert seen.cpus == 1  # processor	: 71, the last of 72 alone
    assert seen.x86 is False


def test_qemus_default_processor_shows_no_avx2_at_all():
    seen = read_cpuinfo(text("cpuinfo-qemu64-no-avx2.txt"))
    # model name          : QEMU Virtual CPU version 2.5+
    assert seen.model == "QEMU Virtual CPU version 2.5+"
    assert seen.cpus == 4  # processor           : 0, 1, 2, 3
    # flags               : fpu de pse … sse sse2 ht syscall nx … 3dnowprefetch vmmcall
    assert seen.extensions == ()
    assert seen.x86 is True


def test_a_processor_of_before_avx_has_no_extension_that_engines_use():
    seen = read_cpuinfo(text("cpuinfo-vendor_not_supported.txt"))
    # model name	: AMD Phenom(tm) 9550 Quad-Core Processor
    assert seen.model == "AMD Phenom(tm) 9550 Quad-Core Processor"
    assert seen.cpus == 1  # processor	: 0
    # flags		: fpu vme de pse … cx16 popcnt lahf_lm … 3dnowprefetch osvw ibs
    assert seen.extensions == ()
    assert seen.x86 is True


def test_available_memory_that_a_kernel_does_not_say_is_none_not_zero():
    memory = read_meminfo(text("meminfo-ne.txt"))
    # MemTotal:        3742148 kB
    assert memory.total_bytes == 3742148 * 1024
    # MemFree:          225472 kB, then Buffers: the kernel is older than MemAvailable.
    assert memory.available_bytes is None


def test_available_memory_is_read_where_it_is_said():
    memory = read_meminfo("MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:  0 kB\n")
    assert memory.available_bytes == 0


def test_available_memory_that_is_garbled_costs_itself():
    memory = read_meminfo("MemTotal:  2048 kB\nMemAvailable:  x kB\n")
    assert (memory.total_bytes, memory.available_bytes) == (2048 * 1024, None)


@pytest.mark.parametrize("total", ["x kB", "0 kB", "2048 MB", ""])
def test_a_total_that_is_none_is_unreadable(total):
    with pytest.raises(Unreadable, match="MemTotal"):
        read_meminfo(f"MemTotal: {total}\nMemAvailable: 1 kB\n")


def test_meminfo_without_a_total_is_unreadable():
    with pytest.raises(Unreadable, match="MemTotal"):
        read_meminfo("MemFree: 12 kB\n")


def test_use_between_two_readings_of_a_busy_machine():
    before, after = read_stat(text("stat-first.txt")), read_stat(text("stat-second.txt"))
    # cpu  214190 40561 27178 79428 97 0 515 1412 0 0      cpu0 …      cpu1 …
    assert before == CpuTimes(busy=283856, total=363381, cpus=2)
    # cpu  214549 40572 27207 79428 97 0 517 1414 0 0
    assert after == CpuTimes(busy=284259, total=363784, cpus=2)
    # 403 busy ticks of 403: no idle tick passed between the two.
    assert busy_percent(before, after) == 100.0


def test_no_time_between_two_readings_is_no_share():
    times = read_stat(text("stat-first.txt"))
    assert busy_percent(times, times) is None


def test_a_counter_that_stepped_back_keeps_the_share_in_its_bounds():
    before = CpuTimes(busy=100, total=200, cpus=1)
    assert busy_percent(before, CpuTimes(busy=90, total=210, cpus=1)) == 0.0


def test_load_averages_are_three():
    # 33.89 30.09 22.90 119/482 30602
    assert read_loadavg(text("loadavg-here.txt")) == Load(one=33.89, five=30.09, fifteen=22.9)
    # 0.21 0.37 0.39 1/719 19737
    assert read_loadavg(text("loadavg-ne.txt")) == Load(one=0.21, five=0.37, fifteen=0.39)


def test_a_load_that_is_garbled_costs_itself():
    assert read_loadavg("1.50 x 0.39 1/719 19737") == Load(one=1.5, five=None, fifteen=0.39)
    with pytest.raises(Unreadable, match="nan"):
        read_loadavg("nan 0.37 0.39 1/719 19737")


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


@pytest.mark.parametrize("text", ["", "# lspci\n\n| file | what: it is |\n", "12:30 up: 3 days\n"])
def test_a_text_that_names_no_processor_is_unreadable(text):
    with pytest.raises(Unreadable, match="no processor in"):
        read_cpuinfo(text)


def test_whether_avx2_is_to_be_expected_is_not_claimed_where_no_flags_are_told():
    seen = read_cpuinfo("processor\t: 0\nmodel name\t: one that lists no flags\n")
    assert (seen.cpus, seen.extensions, seen.x86) == (1, None, None)
