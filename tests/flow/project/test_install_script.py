"""`install.sh`: what it says when it can't, and that two of them take turns. Python is a fake."""

import fcntl
import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("sh", "dirname", "cat", "cksum", "tr", "rm", "mkdir", "cp", "sed", "grep", "flock")
PYTHON = """#!/bin/sh
# Stands for python3 and for the environment's python: venv copies it, all else succeeds.
case "$1 $2" in
"--version ") echo "Python 3.11.0" ;;
"-m venv") [ -z "$NO_VENV" ] && rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-m pip") [ -z "$NO_INDEX" ] || { echo "no index" >&2; exit 1; } ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout that holds only what the script reads, and `bin`: all the PATH there is."""
    there = tmp_path / "checkout"
    (there / "bin").mkdir(parents=True)
    for name in ("install.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, there)
    shutil.copytree(ROOT / "requirements", there / "requirements")
    for tool in TOOLS:
        if (found := shutil.which(tool)) is not None:
            (there / "bin" / tool).symlink_to(found)
    return there


def install(checkout: Path, what: str = "venv", **environ: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["./install.sh", what],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def with_python(checkout: Path) -> Path:
    python = checkout / "bin" / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return checkout


def test_without_a_python_that_will_do_it_names_the_package(checkout: Path) -> None:
    process = install(checkout)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith("llmgw: needs python3 3.11 or newer with venv, or uv")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"NO_INDEX": "1"}, "is a package index reachable?"),
        ({"NO_VENV": "1"}, "could not make "),
    ],
)
def test_what_cannot_be_made_is_said_and_made_anew_the_next_time(
    environ: dict[str, str], words: str, checkout: Path
) -> None:
    process = install(with_python(checkout), **environ)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert words in said.splitlines()[-1]
    again = install(checkout)
    _, said = again.communicate(timeout=30)
    assert again.returncode == 0
    assert "making .venv" in said


@pytest.mark.skipif(shutil.which("flock") is None, reason="without flock(1) nobody waits")
def test_a_second_one_waits_until_the_first_has_made_the_environment(checkout: Path) -> None:
    first = os.open(with_python(checkout), os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)
    second = install(checkout)
    assert second.stderr is not None
    assert "waiting for another" in second.stderr.readline()
    assert not (checkout / ".venv").exists()
    os.close(first)
    second.communicate(timeout=30)
    assert second.returncode == 0
    assert (checkout / ".venv" / ".llmgw-stamp").exists()


def made(checkout: Path, what: str) -> str:
    """Run the script, which must do what it is asked; return what it said."""
    process = install(checkout, what)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    return said


@pytest.mark.parametrize(("first", "then"), [("venv", "test"), ("test", "venv")])
def test_an_environment_of_the_same_locks_is_added_to_and_never_cleared(
    checkout: Path, first: str, then: str
) -> None:
    assert "making .venv" in made(with_python(checkout), first)
    there = checkout / ".venv" / "used-by-a-demo"
    there.touch()
    assert ("adding to .venv what the tests need" in made(checkout, then)) == (then == "test")
    assert there.exists()
    assert made(checkout, "test") == ""
    assert there.exists()


def test_what_could_not_be_added_leaves_the_environment_as_it_was(checkout: Path) -> None:
    made(with_python(checkout), "venv")
    process = install(checkout, "test", NO_INDEX="1")
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "could not install requirements/dev.lock" in said
    assert "making .venv" not in made(checkout, "venv")


def test_an_environment_in_use_is_not_cleared_when_the_project_has_changed(checkout: Path) -> None:
    made(with_python(checkout), "venv")
    used = checkout / ".venv" / "module.so"
    used.write_bytes(b"x")
    with (checkout / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    with used.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        process = install(checkout, "test")
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1
        assert "can't be made anew while it is in use" in said
        assert f"(process {os.getpid()})" in said
        assert used.exists()
    assert "making .venv" in made(checkout, "test")
    assert not used.exists()
