"""Devices: absent is never zero, busy is not work, old is left out, instances are not cards."""

import pytest

from llmgw.control.current import OLD_SECONDS
from llmgw.model.device import (
    GPU,
    MIG,
    Device,
    DeviceHealth,
    DeviceSample,
    ForeignProcess,
    PciLink,
    Xid,
)
from llmgw_agent.parse.kernel_log import LogReader
from llmgw_agent.probe.xid_book import XidBook
from tests.fakes.fleet_parts import NOW
from tests.unit.metrics.scraped import by, named, of_devices, values

AT = ("gpu-01", "3", "u")
ONE = Device(uuid="u", number=3)


def test_a_device_that_tells_nothing_has_no_reading() -> None:
    silent = of_devices(ONE, readings=(DeviceSample(uuid="u"),), health=(DeviceHealth(uuid="u"),))
    assert named(silent, "llmgw_gpu") == {"llmgw_gpu_info"}


def test_a_zero_that_was_measured_is_zero() -> None:
    idle = DeviceSample(
        uuid="u", busy_percent=0.0, memory_used_bytes=0, ecc_uncorrected=0, foreign=()
    )
    snapshot = of_devices(ONE, readings=(idle,))
    assert values(snapshot, "llmgw_gpu_busy_ratio") == {AT: 0.0}
    assert values(snapshot, "llmgw_gpu_memory_used_bytes") == {AT: 0.0}
    assert values(snapshot, "llmgw_gpu_foreign_processes") == {AT: 0.0}
    assert values(snapshot, "llmgw_gpu_foreign_memory_bytes") == {AT: 0.0}
    assert values(snapshot, "llmgw_gpu_ecc_errors_total") == {(*AT, "uncorrected"): 0.0}


def test_percent_and_megahertz_become_base_units() -> None:
    reading = DeviceSample(uuid="u", busy_percent=91.0, sm_clock_mhz=1980.0, fan_percent=40.0)
    snapshot = of_devices(ONE, readings=(reading,))
    assert values(snapshot, "llmgw_gpu_busy_ratio")[AT] == pytest.approx(0.91)
    assert values(snapshot, "llmgw_gpu_sm_clock_hertz")[AT] == 1.98e9
    assert values(snapshot, "llmgw_gpu_fan_ratio")[AT] == pytest.approx(0.4)


def test_work_is_what_multiprocessors_do_else_draw_and_never_busy() -> None:
    drawing = DeviceSample(uuid="u", busy_percent=100.0, power_watts=175.0, power_limit_watts=700.0)
    counted = DeviceSample(uuid="v", busy_percent=100.0, sm_active_percent=12.5, power_watts=700.0)
    busy = DeviceSample(uuid="w", busy_percent=100.0)
    work = values(of_devices(ONE, readings=(drawing, counted, busy)), "llmgw_gpu_work_ratio")
    assert work == {(*AT, "power"): 0.25, ("gpu-01", "", "v", "sm_active"): 0.125}


def test_a_reading_older_than_a_minute_is_left_out_its_heartbeats_age_included() -> None:
    readings = (
        DeviceSample(uuid="a", power_watts=100.0, age=58.0),
        DeviceSample(uuid="b", power_watts=100.0, age=30.0),
    )
    snapshot = of_devices(readings=readings, at=NOW - 3)
    assert list(values(snapshot, "llmgw_gpu_power_watts")) == [("gpu-01", "", "b")]
    assert values(snapshot, "llmgw_gpu_reading_age_seconds") == {("gpu-01", "", "b"): 33.0}


def test_health_older_than_a_minute_is_left_out_its_heartbeats_age_included() -> None:
    def at(age: float, beat_age: float) -> dict[tuple[str, ...], float]:
        health = DeviceHealth(uuid="u", nvlinks=18, age=age)
        snapshot = of_devices(ONE, health=(health,), at=NOW - beat_age)
        return values(snapshot, "llmgw_gpu_nvlinks")

    assert at(45.0, OLD_SECONDS - 45.0) == {AT: 18}
    assert at(45.0, OLD_SECONDS - 44.0) == {}


@pytest.mark.parametrize("liveness", ["unreachable", "lost"])
def test_a_node_that_is_gone_for_a_minute_has_no_devices_to_tell_of(liveness: str) -> None:
    device = Device(uuid="u", unhealthy=(), pci=PciLink(lanes=16))
    reading = (DeviceSample(uuid="u", power_watts=1.0),)
    fresh = of_devices(device, readings=reading, at=NOW - OLD_SECONDS, liveness=liveness)
    assert {"llmgw_gpu_healthy", "llmgw_gpu_power_watts"} <= named(fresh, "llmgw_gpu")
    gone = of_devices(device, readings=reading, at=NOW - OLD_SECONDS - 1, liveness=liveness)
    assert named(gone, ("llmgw_gpu", "llmgw_node")) == {"llmgw_node_state", "llmgw_nodes",
                                                        "llmgw_nodes_wished",
                                                        "llmgw_nodes_unhealthy"}  # fmt: skip


def test_a_device_of_a_ready_node_without_a_reading_is_missed() -> None:
    name = "llmgw_gpu_sample_missing"
    other = Device(uuid="v", number=4)
    reading = DeviceSample(uuid="v", age=1.0)
    assert values(of_devices(ONE, other, readings=(reading,)), name) == {AT: 1}
    assert values(of_devices(ONE, other), name) == {AT: 1, ("gpu-01", "4", "v"): 1}
    old = of_devices(ONE, readings=(DeviceSample(uuid="u", age=61.0),))
    assert values(old, name) == {AT: 1}


def test_a_device_is_not_missed_before_the_first_heartbeat_nor_on_a_node_that_is_away() -> None:
    name = "llmgw_gpu_sample_missing"
    assert values(of_devices(ONE, at=NOW - OLD_SECONDS - 1), name) == {}
    assert values(of_devices(ONE, liveness="unreachable"), name) == {}


def test_a_cards_figures_stay_the_cards_and_an_instance_has_its_own() -> None:
    part = Device(uuid="MIG-1", kind=MIG, number=1203, card_uuid="GPU-2", mig_profile="1g.10gb")
    readings = (
        DeviceSample(uuid="GPU-2", power_watts=212.0, ecc_corrected=1),
        DeviceSample(uuid="MIG-1", memory_used_bytes=7, memory_total_bytes=10),
    )
    snapshot = of_devices(part, readings=readings, health=(DeviceHealth(uuid="GPU-2", nvlinks=18),))
    assert values(snapshot, "llmgw_gpu_power_watts") == {("gpu-01", "2", "GPU-2"): 212.0}
    assert values(snapshot, "llmgw_gpu_nvlinks") == {("gpu-01", "2", "GPU-2"): 18}
    assert values(snapshot, "llmgw_gpu_memory_used_bytes") == {("gpu-01", "1203", "MIG-1"): 7}
    assert values(snapshot, "llmgw_gpu_busy_ratio") == {}
    (labels,) = values(snapshot, "llmgw_gpu_info")
    assert labels[-2:] == ("1g.10gb", "GPU-2")
    assert values(snapshot, "llmgw_gpu_sample_missing") == {}


def test_the_memory_of_a_card_that_is_cut_is_told_by_its_instances_alone() -> None:
    card = Device(uuid="GPU-2", kind=GPU, number=2, device_class="h100", mig_enabled=True)
    part = Device(
        uuid="MIG-1", kind=MIG, number=1203, card_uuid="GPU-2", device_class="h100-mig-1g.10gb"
    )
    readings = (
        DeviceSample(uuid="GPU-2", memory_used_bytes=9, memory_total_bytes=80, power_watts=212.0),
        DeviceSample(uuid="MIG-1", memory_used_bytes=7, memory_total_bytes=10),
        DeviceSample(uuid="u", memory_used_bytes=1, memory_total_bytes=2),
    )
    for listed in ((card, part, ONE), (part, ONE)):
        snapshot = of_devices(*listed, readings=readings)
        used = values(snapshot, "llmgw_gpu_memory_used_bytes")
        assert by(used, 2) == {("MIG-1",): 7, ("u",): 1}
        assert by(values(snapshot, "llmgw_gpu_memory_bytes"), 2) == {("MIG-1",): 10, ("u",): 2}
        assert by(values(snapshot, "llmgw_gpu_power_watts"), 2) == {("GPU-2",): 212.0}
    classes = by(values(of_devices(card, part), "llmgw_gpu_info"), 2, 4)
    assert set(classes) == {("GPU-2", ""), ("MIG-1", "h100-mig-1g.10gb")}
    whole = Device(uuid="GPU-2", kind=GPU, number=2, device_class="h100", mig_enabled=False)
    assert set(by(values(of_devices(whole), "llmgw_gpu_info"), 4)) == {("h100",)}


def test_what_others_hold_is_unknown_when_one_of_them_does_not_tell() -> None:
    known = ForeignProcess(pid=1, memory_bytes=5)
    both = DeviceSample(uuid="u", foreign=(known, ForeignProcess(pid=2)))
    snapshot = of_devices(ONE, readings=(both, DeviceSample(uuid="v", foreign=(known,))))
    assert values(snapshot, "llmgw_gpu_foreign_processes")[AT] == 2
    assert values(snapshot, "llmgw_gpu_foreign_memory_bytes") == {("gpu-01", "", "v"): 5}


def test_healthy_is_told_when_it_is_known() -> None:
    devices = (
        Device(uuid="a", unhealthy=()),
        Device(uuid="b", unhealthy=("XID 79",)),
        Device(uuid="c"),
    )
    found = values(of_devices(*devices), "llmgw_gpu_healthy")
    assert by(found, 2) == {("a",): 1, ("b",): 0}


def test_ecc_counts_come_from_one_source_so_that_none_falls() -> None:
    name = "llmgw_gpu_ecc_errors_total"
    health = DeviceHealth(uuid="u", ecc_corrected_volatile=4, ecc_uncorrected_volatile=0)
    reading = DeviceSample(uuid="u", ecc_corrected=5)
    found = values(of_devices(ONE, readings=(reading,), health=(health,)), name)
    assert by(found, 3) == {("corrected",): 5}
    assert values(of_devices(ONE, health=(health,)), name) == {}


def test_wear_is_told_by_kind_and_what_is_pending_as_yes_or_no() -> None:
    health = DeviceHealth(
        uuid="u",
        remapped_corrected=4,
        remapped_uncorrected=1,
        remap_pending=True,
        remap_failed=False,
        nvlink_replay_errors=5,
        nvlink_crc_errors=0,
        recovery_action="reset",
    )
    snapshot = of_devices(ONE, health=(health,))
    rows = values(snapshot, "llmgw_gpu_remapped_rows_total")
    assert by(rows, 3) == {("corrected",): 4, ("uncorrected",): 1}
    assert values(snapshot, "llmgw_gpu_row_remap_pending") == {AT: 1}
    assert values(snapshot, "llmgw_gpu_row_remap_failed") == {AT: 0}
    errors = values(snapshot, "llmgw_gpu_nvlink_errors_total")
    assert by(errors, 3) == {("replay",): 5, ("crc",): 0}
    assert values(snapshot, "llmgw_gpu_recovery_action") == {(*AT, "reset"): 1}
    assert "llmgw_gpu_retired_pages_total" not in named(snapshot)
    assert "llmgw_gpu_page_retirement_pending" not in named(snapshot)


def test_a_driver_error_is_open_until_it_is_known_to_be_over() -> None:
    xids = (
        Xid(code=79, count=1, last_seen=NOW - 5.5, action="replace", cleared=False),
        Xid(code=31, count=8, action="restart_application", cleared=True),
        Xid(code=999, count=2),
    )
    snapshot = of_devices(ONE, health=(DeviceHealth(uuid="u", xids=xids),))
    counts = values(snapshot, "llmgw_gpu_xid_events_total")
    assert by(counts, 3, 4) == {
        ("79", "replace"): 1,
        ("31", "restart_application"): 8,
        ("999", ""): 2,
    }
    seen = values(snapshot, "llmgw_gpu_xid_last_seen_timestamp_seconds")
    assert by(seen, 3) == {("79",): NOW - 5.5}
    assert by(values(snapshot, "llmgw_gpu_xid_open"), 3) == {("79",): 1, ("999",): 1}


def test_errors_of_a_log_have_what_the_alerts_on_them_ask_for() -> None:
    lines = (
        "[10.0] NVRM: Xid (PCI:0000:38:00): 31, pid=5, name=vllm, Ch 00000008, MMU Fault\n"
        "[11.0] NVRM: Xid (PCI:0000:38:00): 94, pid=5, name=vllm, Ch 00000008\n"
        "[12.0] NVRM: Xid (PCI:0000:38:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen"
        " off the bus.\n"
    )
    book = XidBook()
    for number, event in enumerate(LogReader().read(lines)):
        book.take(event, NOW + number, float(number))
    health = DeviceHealth(uuid="u", xids=book.xids("0000:38:00"))
    snapshot = of_devices(ONE, health=(health,))
    last = by(values(snapshot, "llmgw_gpu_xid_last_seen_timestamp_seconds"), 3, 4)
    assert last["31", "restart_application"] == NOW
    assert last["94", "restart_application"] == NOW + 1
    # What leaves no fault behind is never open: an alert on it can't ask for that.
    assert {code for (code,) in by(values(snapshot, "llmgw_gpu_xid_open"), 3)} == {"79"}


def test_a_slow_slot_shows_as_fewer_lanes_than_there_could_be() -> None:
    link = PciLink(max_generation=4, card_generation=5, lanes=8, max_lanes=16)
    cards = (
        Device(uuid="u", number=3, kind=GPU, pci=link),
        Device(uuid="v", pci=PciLink(lanes=16)),
    )
    snapshot = of_devices(*cards)
    assert values(snapshot, "llmgw_gpu_pcie_lanes") == {AT: 8, ("gpu-01", "", "v"): 16}
    assert values(snapshot, "llmgw_gpu_pcie_max_lanes") == {AT: 16}
    assert values(snapshot, "llmgw_gpu_pcie_max_generation") == {AT: 4}
    assert values(snapshot, "llmgw_gpu_pcie_card_generation") == {AT: 5}
