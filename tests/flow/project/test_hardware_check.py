"""The script that somebody with the hardware runs says which reader could not read what."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import ROOT, python_path
from tests.fakes.nvidia_smi import EXIT, H100, Fault, StubNvidiaSmi
from tests.hardware.look import nothing_there


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


def test_a_driver_that_was_updated_meanwhile_is_told_and_is_not_an_absent_one(tmp_path: Path):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    tool.fail(Fault(how=EXIT, rc=18))
    rows = verdicts(tool, tmp_path / "kept", rc=1)
    for name in ("nvidia-smi-q", "nvidia-smi-csv", "nvidia-smi-topo", "probe gpus"):
        assert rows[name] == "FAILED", name


def test_a_machine_without_cards_has_no_reading_of_them(tmp_path: Path):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    tool.fail(Fault(how=EXIT, rc=6, text="No devices were found\n"))
    rows = verdicts(tool, tmp_path / "kept")
    for name in ("nvidia-smi-q", "probe gpus", "probe gpu-use", "probe gpu-health", "probe dcgm"):
        assert rows[name] == "not here", name
    assert rows["probe memory"] == "ok"


@pytest.mark.parametrize(
    ("sentence", "nothing"),
    [
        ("no NVIDIA cards", True),
        ("no sign of nvidia-imex", True),
        ("nvidia-smi is not on this machine", True),
        ("sminfo is not installed: whose fabric the ports are on is not known", True),
        ("the kernel log can't be read, and there are no NVIDIA cards", True),
        ("no subnet manager answers mlx5_0/1", False),
        ("/dev/kmsg: no card needs anything", False),
        ("8 NVIDIA cards", False),
    ],
)
def test_a_probe_s_sentence_says_whether_what_it_reads_is_there(sentence: str, nothing: bool):
    assert nothing_there(sentence) is nothing


def test_the_check_needs_nothing_that_only_the_tests_of_the_project_need():
    own = {"llmgw", "llmgw_agent", "msgspec"}
    files = sorted((ROOT / "tests" / "hardware").glob("*.py"))
    assert files
    for file in (*files, ROOT / "tests" / "__init__.py"):
        for name in imported(file):
            root = name.partition(".")[0]
            known = root in own or root in sys.stdlib_module_names
            assert known or name.startswith("tests.hardware"), f"{file.name}: {name}"


def test_without_an_environment_the_script_names_the_command_that_makes_it(tmp_path: Path):
    place = tmp_path / "tests" / "hardware"
    place.mkdir(parents=True)
    script = shutil.copy(ROOT / "tests" / "hardware" / "check.sh", place)
    done = subprocess.run([script], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (2, "no .venv here: run ./install.sh venv first\n")
    listed = (ROOT / "docs" / "hardware-checks.md").read_text()
    assert "./install.sh venv && tests/hardware/check.sh" in listed


def imported(file: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)


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
    assert done.stderr == ""
    cells = [line.split("  ") for line in done.stdout.splitlines() if "  " in line]
    return {row[0]: next(cell for cell in row[1:] if cell).strip() for row in cells}
