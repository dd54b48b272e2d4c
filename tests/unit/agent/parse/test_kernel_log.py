"""Every recorded kernel log, its lines quoted beside what a person reads in them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse.kernel_log import CardAttached, DriverLoaded, LogReader, XidEvent, read
from llmgw_agent.parse.log_lines import LogTime, read_line

FIXTURES = Path(__file__).parents[3] / "fixtures" / "xid"


def recorded(name: str) -> tuple[XidEvent, ...]:
    return tuple(event for event in everything(name) if isinstance(event, XidEvent))


def everything(name: str):
    return read((FIXTURES / name).read_text())


def utc(day: int, hour: int, minute: int, second: int, microsecond: int) -> float:
    return datetime(2024, 11, day, hour, minute, second, microsecond, tzinfo=UTC).timestamp()


def test_gsp_timeouts_of_one_card_are_counted_and_the_dump_between_them_is_not():
    found = recorded("dmesg-ctime-119-gsp.txt")
    # [Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi,
    #   Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 103 (…
    # [Sun Feb 23 16:24:24 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, …
    # [Sun Feb 23 16:24:30 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, …
    # [Sun Feb 23 16:27:12 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=1263500, name=cache_mgr_main,
    # [Sun Feb 23 16:30:13 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=1240590, name=gpud, Timeout …
    assert [(one.code, one.pci, one.pid, one.process) for one in found] == [
        (119, "0000:9b:00", 2024380, "nvidia-smi"),
        (119, "0000:9b:00", 2024380, "nvidia-smi"),
        (119, "0000:9b:00", 2024380, "nvidia-smi"),
        (119, "0000:9b:00", 1263500, "cache_mgr_main"),
        (119, "0000:9b:00", 1240590, "gpud"),
    ]
    assert [one.when.stamp for one in found] == [
        "Sun Feb 23 16:24:18 2025",
        "Sun Feb 23 16:24:24 2025",
        "Sun Feb 23 16:24:30 2025",
        "Sun Feb 23 16:27:12 2025",
        "Sun Feb 23 16:30:13 2025",
    ]
    # No zone is told, so nobody can say when that was.
    assert {one.when.at for one in found} == {None}
    assert found[0].text == (
        "Timeout after 6s of waiting for RPC response from GPU4 GSP! "
        "Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4)."
    )
    assert {one.action for one in found} == {"reset"}


def test_the_driver_names_a_card_before_its_first_error():
    # [Sun Feb 23 16:24:18 2025] NVRM: GPU at PCI:0000:9b:00:
    #   GPU-2ba1a139-57db-54a1-8869-f456e6363530
    first = everything("dmesg-ctime-119-gsp.txt")[0]
    assert first == CardAttached(
        pci="0000:9b:00",
        uuid="GPU-2ba1a139-57db-54a1-8869-f456e6363530",
        when=LogTime(stamp="Sun Feb 23 16:24:18 2025"),
    )


def test_a_memory_error_its_row_and_what_it_cost_come_in_order_with_their_times():
    found = recorded("dmesg-iso-48-63-94-h100.txt")
    assert len(everything("dmesg-iso-48-63-94-h100.txt")) == 11
    # 2024-11-15T12:02:03,470068+00:00 NVRM: Xid (PCI:0000:19:00): 48, pid='<unknown>',
    #   name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in …
    # 2024-11-15T12:02:03,498753+00:00 NVRM: Xid (PCI:0000:19:00): 63, pid='<unknown>',
    #   name=<unknown>, Row Remapper: New row (0x00000012bac1c3e0) marked for remapping, reset gpu …
    # 2024-11-15T12:02:03,506595+00:00 NVRM: Xid (PCI:0000:19:00): 94, pid='<unknown>',
    #   name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No
    # 2024-11-15T12:02:03,521616+00:00 NVRM: Xid (PCI:0000:19:00): 94, pid=1248209,
    #   name=python3.10, Ch 00000008          (and channels 9 to f, the last at ,638794)
    assert [one.code for one in found] == [48, 63, 94, 94, 94, 94, 94, 94, 94, 94, 94]
    assert {one.pci for one in found} == {"0000:19:00"}
    assert [(one.pid, one.process) for one in found] == [
        *[(None, None)] * 3,
        *[(1248209, "python3.10")] * 8,
    ]
    assert found[0].text == (
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
        "physAddr 0x12bac1c3e0 partition 2, subpartition 1."
    )
    assert found[1].text == (
        "Row Remapper: New row (0x00000012bac1c3e0) marked for remapping, reset gpu to activate."
    )
    assert found[2].text == "Contained: SM (0x1). RST: No, D-RST: No"
    assert [one.text for one in found[3:]] == [f"Ch 0000000{n:x}" for n in range(8, 16)]
    assert found[0].when == LogTime(at=utc(15, 12, 2, 3, 470068))
    assert found[1].when == LogTime(at=utc(15, 12, 2, 3, 498753))
    assert found[-1].when == LogTime(at=utc(15, 12, 2, 3, 638794))
    assert [one.action for one in found[:3]] == ["reset", "ignore", "restart_application"]


def test_a_card_that_is_gone_is_told_in_three_lines_without_a_number():
    # [ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0
    #                NVRM: (PCI ID: 10de:26b5) installed in this system has
    #                NVRM: fallen off the bus and is not responding to commands.
    # [ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).
    # [ 1843.439669] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release …
    gone, loaded = everything("dmesg-no-xid-fallen-off.txt")
    assert gone == XidEvent(
        code=79,
        pci="0000:b3:00",
        when=LogTime(since_boot=1843.308145),
        text="fallen off the bus and is not responding to commands.",
        words="fell off the bus",
        action="reboot",
        while_loading=True,
    )
    assert loaded == DriverLoaded(version="570.158.01", when=LogTime(since_boot=1843.439669))


def test_nvlink_errors_of_a_gb200_tray_and_what_the_driver_asks_for_then():
    # [171167.620236] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x02…
    # [171167.621162] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None)
    #   to 0x4 (Drain and Reset)
    # [171167.630899] NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x02…
    # [171167.897562] NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x4 (Drain
    #   and Reset) to 0x1 (GPU Reset Required)
    # [171168.409446] NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 (0x02…
    # [171168.601459] NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x4 (Drain
    #   and Reset) to 0x1 (GPU Reset Required)
    found = recorded("gb200-149-154-nvlink5.txt")
    assert [(one.code, one.pci, one.recovery) for one in found] == [
        (149, "0009:01:00", None),
        (154, "0009:01:00", "Drain and Reset"),
        (149, "0008:01:00", None),
        (154, "0019:01:00", "GPU Reset Required"),
        (149, "0008:01:00", None),
        (154, "0008:01:00", "GPU Reset Required"),
    ]
    assert {one.action for one in found} == {"reset"}
    assert {(one.pid, one.process) for one in found} == {(None, None)}
    assert found[0].text.startswith("NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 ")
    assert found[4].text.startswith("NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 ")
    assert [one.when.since_boot for one in found] == [
        171167.620236,
        171167.621162,
        171167.630899,
        171167.897562,
        171168.409446,
        171168.601459,
    ]


def test_the_second_line_of_one_event_is_not_a_second_event():
    # Okt 06 17:59:27 ws01 kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off
    #   the bus.
    # Okt 06 17:59:27 ws01 kernel: NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.
    (gone,) = everything("journal-german-79.txt")
    assert (gone.code, gone.pci, gone.pid, gone.process) == (79, "0000:01:00", 1122, None)
    assert gone.text == "GPU has fallen off the bus."
    assert gone.when == LogTime(stamp="Okt 06 17:59:27")


@pytest.mark.parametrize(
    "name",
    [
        # 2025-01-17T17:39:30+0000 gpu-n08 kernel: nvidia-peermem nv_get_p2p_free_callback:127 …
        "journal-short-iso-no-xid.txt",
        # 2025-01-02T15:20:12+0800 gpu-n07 kernel: docker0: port 1(vetha17b2cc) entered …
        "journal-short-iso-plus0800.txt",
        # 6,3964,206764307,-;nvidia-nvswitch2: open (major=510)
        "kmsg-raw.txt",
    ],
)
def test_a_log_without_driver_errors_tells_of_none(name: str):
    assert everything(name) == ()


def test_one_example_of_each_code_is_one_record_a_line():
    found = recorded("many-codes.txt")
    # NVRM: Xid (PCI:0000:38:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception …
    # NVRM: Xid (PCI:0000:38:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception …
    # NVRM: Xid (0000:03:00): 14, Channel 00000001
    # NVRM: Xid (PCI:0000:38:00): 43, pid=2924364, name=pt_main_thread, Ch 00000008
    # NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    # NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting …
    # NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting …
    # NVRM: Xid (PCI:0000:04:00): 144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000 …
    # NVRM: Xid (PCI:0000:04:00): 144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000008 …
    # NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000001 …
    # NVRM: Xid (PCI:0000:04:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000 …
    # NVRM: Xid (PCI:0000:04:00): 146, TLW_TX/TLW_TX_PIPE1 Nonfatal XC0 i0 Link 00 (0x0000000d …
    # NVRM: Xid (PCI:0000:04:00): 146, TLW_TX/TLW_TX_PIPE1 Fatal XC0 i0 Link 00 (0x0000000d …
    # NVRM: Xid (PCI:0000:04:00): 147, TREX Nonfatal XC0 i0 Link 00 (0x0000000e 0x00000001 …
    # NVRM: Xid (PCI:0000:04:00): 148, NVLPW_CTRL/NVLPW Nonfatal XC0 i0 Link 00 (0x0000000f …
    # NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 …
    # NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 …
    # NVRM: Xid (PCI:0000:04:00): 150, MSE_WATCHDOG Fatal XC0 i0 Link 00 (0x00000000 0x00000000 …
    # NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to …
    # NVRM: Xid (PCI:0018:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to …
    assert [(one.code, one.pci, one.action) for one in found] == [
        (13, "0000:38:00", "restart_application"),
        (13, "0000:38:00", "restart_application"),
        (14, "0000:03:00", "ignore"),
        (43, "0000:38:00", "ignore"),
        (79, "0000:05:00", "reboot"),
        (119, "0000:9b:00", "reset"),
        (119, "0000:9b:00", "reset"),
        (144, "0000:04:00", "ignore"),
        (144, "0000:04:00", "ignore"),
        (145, "0000:04:00", "ignore"),
        (145, "0000:04:00", "ignore"),
        (146, "0000:04:00", "ignore"),
        (146, "0000:04:00", "reset"),
        (147, "0000:04:00", "ignore"),
        (148, "0000:04:00", "ignore"),
        (149, "0018:01:00", "reset"),
        (149, "0019:01:00", "reset"),
        (150, "0000:04:00", "reset"),
        (154, "0019:01:00", "reset"),
        (154, "0018:01:00", "reset"),
    ]
    assert (found[0].pid, found[0].process) == (None, None)
    assert found[0].text == (
        "Graphics SM Warp Exception on (GPC 9, TPC 5, SM 0): Out Of Range Address"
    )
    assert found[2].text == "Channel 00000001"
    assert (found[3].pid, found[3].process, found[3].text) == (
        2924364,
        "pt_main_thread",
        "Ch 00000008",
    )
    assert found[16].text.startswith("NETIR Fatal XC0 i0 Link -1 (0x000fe406 ")
    assert {one.when for one in found} == {LogTime()}


def test_a_device_number_other_than_0_is_the_cards_own():
    # NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset …
    (row,) = recorded("row-remapper-63.txt")
    assert (row.code, row.pci, row.pid, row.process) == (63, "0000:10:1c", 1896, None)
    assert row.text == "Row Remapper: New row marked for remapping, reset gpu to activate."


XID_13 = "NVRM: Xid (PCI:0000:38:00): 13, pid=7, name=a, b, Graphics Exception"


@pytest.mark.parametrize(
    ("head", "when"),
    [
        ("4,3964,206764307,-;", LogTime(since_boot=206.764307)),
        ("4,3964,206764307,-,caller=T12;", LogTime(since_boot=206.764307)),
        ("[    5.250000] ", LogTime(since_boot=5.25)),
        ("[    5.250000][   T12] ", LogTime(since_boot=5.25)),
        ("kern  :warn  : [    5.250000] ", LogTime(since_boot=5.25)),
        ("2024-11-15T12:02:03,470068+00:00 ", LogTime(at=utc(15, 12, 2, 3, 470068))),
        ("2024-11-15T20:02:03+0800 n1 kernel: ", LogTime(at=utc(15, 12, 2, 3, 0))),
        ("2024-11-15T12:02:03+0000 n1 kernel: [    5.25] ", LogTime(at=utc(15, 12, 2, 3, 0))),
        ("2024-11-15T12:02:03.470068Z n1 kernel: ", LogTime(at=utc(15, 12, 2, 3, 470068))),
        ("Nov  5 12:02:03 n1 kernel: [    5.250000] ", LogTime(stamp="Nov  5 12:02:03")),
        ("[Fri Nov 15 12:02:03 2024] ", LogTime(stamp="Fri Nov 15 12:02:03 2024")),
        ("2024-99-15T12:02:03+0000 n1 kernel: ", LogTime(stamp="2024-99-15T12:02:03+0000")),
        ("", LogTime()),
    ],
)
def test_the_same_message_is_read_in_every_form_of_a_log(head: str, when: LogTime):
    (event,) = read(head + XID_13)
    assert isinstance(event, XidEvent)
    assert (event.code, event.pid, event.process) == (13, 7, "a")
    assert event.text == "b, Graphics Exception"
    assert event.when == when


def test_a_record_of_several_lines_is_one_message_in_kmsg():
    text = (
        "3,1200,1843308145,-;NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: (PCI ID: 10de:26b5) "
        "installed in this system has\\x0aNVRM: fallen off the bus and is not responding to "
        "commands.\n SUBSYSTEM=pci\n DEVICE=+pci:0000:b3:00.0\n"
    )
    (gone,) = read(text)
    assert (gone.code, gone.pci, gone.when.since_boot) == (79, "0000:b3:00", 1843.308145)


def test_an_error_of_a_mig_instance_names_it():
    # The form of krcReportXid and of NVIDIA's GPU Memory Error Management.
    line = (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: CE User Channel "
        "(0x9). RST: No, D-RST: No"
    )
    (event,) = read(line)
    assert (event.code, event.pci, event.gpu_instance, event.pid) == (94, "0000:01:00", 5, 7194)


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("None", "ignore"),
        ("GPU Reset Required", "reset"),
        ("PF FLR", "reset"),
        ("Drain and Reset", "reset"),
        ("Drain P2P", "restart_application"),
        ("Node Reboot Required", "reboot"),
        ("OS Reboot", "reboot"),
        ("something new", None),
    ],
)
def test_what_the_driver_asks_for_is_the_action_of_154(words: str, action: str | None):
    changed = f"GPU recovery action changed from 0x0 (None) to 0x9 ({words})"
    (event,) = read(f"NVRM: Xid (PCI:0000:01:00): 154, {changed}")
    assert (event.recovery, event.action) == (words, action)


def test_cards_that_are_gone_are_counted_once_a_line_and_once_a_load():
    numbered = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    plain = "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus."
    older = "NVRM: GPU at 0000:01:00.0 has fallen off the bus."
    load = (
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    )
    assert codes(numbered, plain, numbered) == [79, 79]
    assert codes(plain, numbered, plain) == [79]
    assert codes(older, numbered) == [79]
    assert codes(plain, load, plain) == [79, "535.183.01", 79]
    assert codes(plain, plain.replace("01:00", "02:00")) == [79, 79]
    reader = LogReader()
    assert len(reader.read(numbered)) == 1
    assert reader.read(plain) == ()


def codes(*lines: str) -> list[object]:
    return [
        event.code if isinstance(event, XidEvent) else getattr(event, "version", "?")
        for event in read("\n".join(lines))
    ]


def test_another_message_about_a_named_card_is_no_error():
    unsupported = (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b80)\n"
        "NVRM: installed in this system is not supported by the\n"
        "NVRM: NVIDIA 570.158.01 driver release.\n"
    )
    assert read(unsupported) == ()
    later = "NVRM: a\n" * 4 + "NVRM: fallen off the bus and is not responding to commands.\n"
    assert read(unsupported + later) == ()


def test_a_card_that_the_kernel_finds_again_is_attached():
    line = "[  912.100000] pci 0000:19:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint"
    assert read(line) == (CardAttached(pci="0000:19:00", when=LogTime(since_boot=912.1)),)
    assert read(line.replace("0x030200", "0x068000")) == ()


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid : 32, pid=2280636",
        "NVRM: Xid (PCI:zz:00): 32, pid=2280636",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 33",
        "NVRM: Xid (PCI:0000:66:00): ",
        "NVRM: GPU has fallen off the bus.",
        "NVRM: loading NVIDIA UNIX",
        "audit: someone wrote NVRM: Xid (PCI:0000:66:00): 79",
    ],
)
def test_a_line_in_no_known_form_costs_itself(line: str):
    assert codes(line, XID_13) == [13]


def test_a_code_that_nobody_knows_has_neither_meaning_nor_action():
    (event,) = read("NVRM: Xid (PCI:0000:0d:00): 51, BAD_TSG encountered on runlist: 0")
    assert (event.code, event.words, event.action) == (51, None, None)


def test_text_that_escapes_a_backslash_comes_back_whole():
    assert read_line("6,1,5,-;a\\x5cx0ab").text == "a\\x0ab"


@given(st.text(alphabet="NVRM: Xid(PCI0a9),=pidname<>'\n[]-;6.", max_size=300))
def test_no_text_raises(text: str):
    read(text)
    read(f"NVRM: Xid (PCI:0000:01:00): {text}")


XID_79 = "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "log",
    [
        # As /dev/kmsg writes a line end that a user put into the name of a mount option.
        f"3,10,1000000,-;tmpfs: Unknown parameter 'x\\x0a{XID_79}'",
        # As dmesg and the journal do.
        f"[    1.000000] tmpfs: Unknown parameter 'x\n               {XID_79}'",
        f"2024-11-15T12:02:03+0000 host kernel: tmpfs: Unknown parameter 'x\n{XID_79}'",
        "[    1.000000] tmpfs: Unknown parameter 'NVRM: GPU 0000:19:00.0 has fallen off the bus'",
    ],
)
def test_what_a_user_made_the_kernel_repeat_is_no_error_of_a_card(log: str):
    assert read(log) == ()


def test_further_lines_of_the_driver_s_own_message_are_read():
    log = f"3,10,1000000,-;NVRM: what comes first\\x0a{XID_79}"
    assert [event.pci for event in read(log) if isinstance(event, XidEvent)] == ["0000:19:00"]


@pytest.mark.parametrize(
    "log",
    [
        # Facility 1, that of programs, and every level: the number is 8 * facility + level.
        *(f"{8 + level},10,1000000,-;{XID_79}" for level in range(8)),
        f"2047,10,1000000,-;{XID_79}",
        f"12,10,1000000,-;NVRM: what comes first\\x0a{XID_79}",
        f"12,10,1000000,-;NVRM: what comes first\n{XID_79}",
        # As `dmesg -x` names it, and `dmesg -r` numbers it.
        f"user  :notice: [    1.000000] {XID_79}",
        f"local0:err   : [    1.000000] {XID_79}",
        f"<12>[    1.000000] {XID_79}",
    ],
)
def test_what_a_program_wrote_into_the_log_is_no_error_of_a_card(log: str):
    assert read(log) == ()


@pytest.mark.parametrize("head", ["3,10,1000000,-;", "kern  :err   : [    1.000000] "])
def test_what_the_kernel_says_itself_is(head: str):
    assert [type(event) for event in read(f"{head}{XID_79}")] == [XidEvent]


@pytest.mark.parametrize(
    ("head", "stamp"),
    [
        ("3,10,999999999999999999,-;", "999999999999999999"),
        ("[999999999999.000000] ", "999999999999.000000"),
        ("2025-13-45T99:99:99+0000 n1 kernel: ", "2025-13-45T99:99:99+0000"),
        ("9999-12-31T23:59:59+0000 n1 kernel: ", "9999-12-31T23:59:59+0000"),
        ("0001-01-01T00:00:00+0000 n1 kernel: ", "0001-01-01T00:00:00+0000"),
    ],
)
def test_a_time_that_is_none_is_kept_as_it_is_written_and_still_begins_a_message(
    head: str, stamp: str
):
    (event,) = read(f"{head}{XID_79}")
    assert event.when == LogTime(stamp=stamp)
    forged = f"[    1.000000] NVRM: x\n{head}tmpfs: Unknown parameter 'x\n{XID_79}"
    assert read(forged) == ()
