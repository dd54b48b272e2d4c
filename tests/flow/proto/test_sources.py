"""The sources are lint-clean, break no released reader, and the generated code is theirs."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROTO = ROOT / "proto"


def buf(tmp_path: Path, *argv: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / "buf"
    environ = {**os.environ, "BUF_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run(
        [str(program), *argv], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the sources that a test may change."""
    copy = tmp_path / "checkout"
    shutil.copytree(PROTO, copy / "proto", ignore=shutil.ignore_patterns("__pycache__"))
    # The compiler formats with ruff, which takes its line length from pyproject.toml.
    for name in ("buf.yaml", "buf.gen.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    return copy


def test_the_sources_pass_the_linter(tmp_path):
    done = buf(tmp_path, "lint")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_sources_break_no_released_reader(tmp_path):
    done = buf(tmp_path, "breaking", "--against", str(PROTO / "released.binpb"))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("optional double busy_percent = 2;", "optional float busy_percent = 2;"),
        ("optional double busy_percent = 2;", "optional double busy_percent = 99;"),
        ("DEVICE_KIND_MIG = 2;", "DEVICE_KIND_MIG = 3;"),
    ],
)
def test_a_change_that_an_old_reader_would_misread_is_found(tmp_path, checkout, before, after):
    source = checkout / "proto" / "llmgw" / "v1" / "device.proto"
    text = source.read_text()
    assert before in text
    source.write_text(text.replace(before, after))
    against = str(PROTO / "released.binpb")
    done = buf(tmp_path, "breaking", "--against", against, cwd=checkout)
    assert done.returncode == 100, done.stdout + done.stderr


def test_generating_changes_nothing():
    argv = [sys.executable, str(PROTO / "generate.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_source_that_was_not_generated_again_is_found(checkout):
    source = checkout / "proto" / "llmgw" / "v1" / "link.proto"
    source.write_text(source.read_text().replace("message Ping {", "// New.\nmessage Ping {"))
    argv = [sys.executable, str(checkout / "proto" / "generate.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["differs: llmgw/v1/__init__.py"]


def test_buf_generates_the_same_text(tmp_path, checkout):
    made = checkout / "proto" / "llmgw_proto" / "wire" / "llmgw" / "v1" / "__init__.py"
    kept = made.read_bytes()
    made.write_text("")
    scripts = sysconfig.get_path("scripts")
    environ = {**os.environ, "PATH": f"{scripts}:/usr/bin:/bin", "BUF_CACHE_DIR": str(tmp_path)}
    subprocess.run([f"{scripts}/buf", "generate"], cwd=checkout, env=environ, check=True)
    assert made.read_bytes() == kept
