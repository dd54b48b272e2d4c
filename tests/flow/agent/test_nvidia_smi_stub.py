"""The `nvidia-smi` that tests put on a PATH answers what was recorded, and fails as ordered."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import EXIT, H100, HALF, HANG, MIG, Fault, Recorded, StubNvidiaSmi
from tests.waiting import wait_for


@pytest.fixture
def h100(tmp_path: Path) -> StubNvidiaSmi:
    return StubNvidiaSmi(tmp_path, H100)


@pytest.fixture
def mig(tmp_path: Path) -> StubNvidiaSmi:
    return StubNvidiaSmi(tmp_path, MIG)


def run(tool: StubNvidiaSmi, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [tool.tool, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": "/usr/bin:/bin"},
    )


def query(tool: StubNvidiaSmi, *fields: str, form: str = "csv", more: str = "") -> list[str]:
    arguments = [f"--query-gpu={','.join(fields)}", f"--format={form}", *more.split()]
    done = run(tool, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_fields_are_answered_from_the_recorded_report(h100: StubNvidiaSmi) -> None:
    fields = ("index", "uuid", "pci.bus_id", "memory.total", "power.draw", "temperature.gpu")
    head, first, *others = query(h100, *fields)
    assert head == ("index, uuid, pci.bus_id, memory.total [MiB], power.draw [W], temperature.gpu")
    # GPU UUID : GPU-b58d40dc-…, Bus Id : 00000000:19:00.0, Total : 81559 MiB,
    # Power Draw : 67.74 W, GPU Current Temp : 29 C
    assert first == (
        "0, GPU-b58d40dc-98d0-36a7-234c-2a26485ac4b0, 00000000:19:00.0, 81559 MiB, 67.74 W, 29"
    )
    assert len(others) == 7


def test_units_and_heads_are_left_out_as_asked(h100: StubNvidiaSmi) -> None:
    rows = query(h100, "utilization.gpu", "clocks.sm", form="csv,noheader,nounits")
    assert rows == ["0, 86"] * 8  # Gpu : 0 %, SM : 86 MHz
    assert query(h100, "clocks.sm", form="csv,nounits")[0] == "clocks.current.sm [MHz]"


def test_what_a_card_does_not_tell_is_not_there(h100: StubNvidiaSmi) -> None:
    rows = query(h100, "fan.speed", "retired_pages.pending", form="csv,noheader")
    assert set(rows) == {"[N/A], [N/A]"}  # Fan Speed : N/A, Pending Page Blacklist : N/A


def test_reasons_for_slowing_down_are_the_bits_of_the_report(h100: StubNvidiaSmi) -> None:
    # HW Slowdown : Active, HW Power Brake Slowdown : Active
    rows = query(h100, "clocks_throttle_reasons.active", form="csv,noheader")
    assert set(rows) == {"0x0000000000000088"}


def test_one_card_can_be_asked_for(h100: StubNvidiaSmi) -> None:
    assert query(h100, "index", form="csv,noheader", more="-i 3") == ["3"]


def test_a_field_that_the_driver_does_not_know_fails_the_whole_query(h100: StubNvidiaSmi) -> None:
    done = run(h100, "--query-gpu=index,warmth", "--format=csv")
    assert done.returncode == 2
    assert done.stdout.startswith('Field "warmth" is not a valid field to query.')
    h100.refuse("compute_cap")
    done = run(h100, "--query-gpu=compute_cap", "--format=csv")
    assert '"compute_cap"' in done.stdout


def test_a_card_in_mig_mode_is_answered_from_the_xml(mig: StubNvidiaSmi) -> None:
    fields = ("mig.mode.current", "utilization.gpu", "memory.used", "power.limit")
    # <current_mig>Enabled, <gpu_util>N/A, <used>50 MiB, <requested_power_limit>500.00 W
    assert query(mig, *fields, form="csv,noheader") == ["Enabled, [N/A], 50 MiB, 500.00 W"]
    listed = run(mig, "-L").stdout.splitlines()
    assert len(listed) == 5
    assert listed[1].startswith("  MIG 1g.20gb     Device  0: (UUID: MIG-")
    report = run(mig, "-q").stdout
    assert "    GPU UUID                              : GPU-690adda0-83a8-3d78" in report
    assert run(mig, "-q", "-x").stdout.startswith("<?xml")


def test_links_bear_the_names_of_the_cards_that_are_there(h100: StubNvidiaSmi) -> None:
    lines = run(h100, "nvlink", "-s").stdout.splitlines()
    heads = [line for line in lines if line.startswith("GPU ")]
    assert len(heads) == 8
    assert "GPU-b58d40dc-98d0-36a7-234c-2a26485ac4b0" in heads[0]
    assert lines[1] == "         Link 0: 26.562 GB/s"


def test_what_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    tool = StubNvidiaSmi(tmp_path, Recorded(files={"q.txt": H100.files["q.txt"]}))
    assert run(tool, "topo", "-m").returncode == 6
    assert run(tool, "-q").returncode == 0


def test_values_and_processes_can_be_changed(h100: StubNvidiaSmi) -> None:
    h100.change({1: {"utilization.gpu": "87 %"}})
    rows = query(h100, "utilization.gpu", form="csv,noheader")
    assert rows[:3] == ["0 %", "87 %", "0 %"]
    h100.run_apps([{"gpu_uuid": "GPU-a", "pid": "7", "used_memory": "90 MiB"}])
    done = run(h100, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv")
    assert done.stdout.splitlines() == [
        "gpu_uuid, pid, used_gpu_memory [MiB]",
        "GPU-a, 7, 90 MiB",
    ]


def test_it_hangs_after_its_good_answers_and_ignores_a_polite_end(h100: StubNvidiaSmi) -> None:
    h100.fail(Fault(how=HANG, kind="query-gpu", after=1))
    assert len(query(h100, "index")) == 9
    assert run(h100, "-L").returncode == 0
    hangs = subprocess.Popen([h100.tool, "--query-gpu=index", "--format=csv"])
    try:
        # Its second call of that kind is noted before it hangs, and the signal is ignored then.
        wait_for(lambda: len(h100.calls()) == 3)
        ignored = f"/proc/{hangs.pid}/status"
        wait_for(lambda: int(_field(ignored, "SigIgn"), 16) >> (signal.SIGTERM - 1) & 1)
        hangs.terminate()
        assert hangs.poll() is None
    finally:
        hangs.kill()
        hangs.wait()


def _field(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def test_it_exits_with_a_text_and_prints_half_a_row(h100: StubNvidiaSmi) -> None:
    h100.fail(Fault(how=EXIT))
    done = run(h100, "-q")
    assert done.returncode == 9
    assert done.stdout == "Failed to initialize NVML: Driver/library version mismatch\n"
    h100.fail(Fault(how=HALF))
    done = run(h100, "--query-gpu=index,name", "--format=csv,noheader")
    assert done.stdout.splitlines()[-1] == "7, NVIDIA H1"  # of "7, NVIDIA H100 80GB HBM3"
    assert done.returncode == 0


def test_it_vanishes_and_comes_back(h100: StubNvidiaSmi) -> None:
    h100.vanish()
    with pytest.raises(FileNotFoundError):
        run(h100, "-L")
    h100.appear()
    assert run(h100, "-L").returncode == 0
