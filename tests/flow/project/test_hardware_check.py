"""The script that somebody with the hardware runs says which reader could not read what."""

import os
import subprocess
import sys
from pathlib import Path

from tests.agents import ROOT, python_path
from tests.fakes.nvidia_smi import H100, StubNvidiaSmi


def test_every_reader_of_a_machine_with_cards_is_run_and_its_text_and_record_are_kept(
    tmp_path: Path,
):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    kept = tmp_path / "kept"
    rows = verdicts(tool, kept)
    read = {"nvidia-smi-csv", "nvidia-smi-L", "nvidia-smi-q", "nvidia-smi-topo", "cpuinfo"}
    assert {name: rows[name] for name in read} == dict.fromkeys(read, "ok")
    assert rows["probe gpus"] == "ok"
    for name in read:
        assert (kept / f"{name}.txt").stat().st_size > 0
        assert (kept / f"{name}.json").stat().st_size > 0
    assert "GPU-" in (kept / "look.json").read_text()


def test_a_reader_that_can_not_read_a_tool_fails_the_check(tmp_path: Path):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    (tool.data / "topo.txt").write_text("nothing that anybody knows\n")
    rows = verdicts(tool, tmp_path / "kept", rc=1)
    assert rows["nvidia-smi-topo"] == "FAILED"
    assert rows["nvidia-smi-q"] == "ok"


def verdicts(tool: StubNvidiaSmi, kept: Path, rc: int = 0) -> dict[str, str]:
    """Return how each reader did."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardware.check", str(kept)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tool.bin}:/usr/bin:/bin", "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    cells = [line.split("  ") for line in done.stdout.splitlines() if "  " in line]
    return {row[0]: next(cell for cell in row[1:] if cell).strip() for row in cells}
