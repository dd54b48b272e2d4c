"""Processes on cores of their own, and what the kernel says that they cost."""

import atexit
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
CORES = sorted(os.sched_getaffinity(0))
PROXY, REST = CORES[0], CORES[-1]
"""The core of what is measured, and that of engines and clients."""


def tree(pid: int) -> set[int]:
    """Return a process and all that descend from it."""
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found |= tree(int(child))
        except OSError:
            continue
    return found


def cpu_us(pid: int) -> float:
    """Return the CPU time of a process and its descendants in µs."""
    total = 0
    for one in tree(pid):
        for task in Path(f"/proc/{one}/task").glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                continue
    return total / 1000


def resident(pid: int) -> int:
    """Return the memory of a process and its descendants in bytes."""
    total = 0
    for one in tree(pid):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * resource.getpagesize()


def pin(pid: int, core: int) -> None:
    """Let a process and its descendants run on one core alone."""
    for one in tree(pid):
        for task in Path(f"/proc/{one}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})


def pinned(core: int, argv: Sequence[str], **more: Any) -> subprocess.Popen[str]:
    """Start a program on a core; its descendants stay there."""
    return subprocess.Popen(["taskset", "-c", str(core), *argv], text=True, **more)


def end(process: subprocess.Popen[str]) -> None:
    """End a program that `pinned` started, and what it left."""
    left = tree(process.pid)
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in left - {process.pid}:
        kill(pid)


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


@cache
def program(name: str) -> list[str]:
    """Return how `engine` or `load` is started: compiled where there is a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return [sys.executable, "-m", "tests.bench.gateway.plain", name]
    directory = tempfile.mkdtemp(prefix="llmgw-bench-")
    atexit.register(shutil.rmtree, directory)
    out = Path(directory) / name
    subprocess.run([compiler, "-O2", "-o", out, HERE / f"{name}.c"], check=True)
    return [str(out)]


class Engines:
    """Four engines in one process."""

    def __init__(self) -> None:
        self._process = pinned(REST, program("engine"), stdout=subprocess.PIPE)
        self.ports = [int(port) for port in line(self._process.stdout).split()]

    @property
    def pid(self) -> int:
        """Return the process that they are in."""
        return self._process.pid

    def stats(self) -> dict[str, Any]:
        """Return how many streams run, and how often each engine was asked."""
        url = f"http://127.0.0.1:{self.ports[0]}/stats"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return dict(json.loads(reply.read()))

    def streams(self) -> int:
        """Return how many streams run."""
        return int(self.stats()["streams"])

    def end(self) -> None:
        """End them."""
        end(self._process)


class Load:
    """One run of clients."""

    def __init__(self, mode: str, port: int, request: bytes, *more: float) -> None:
        self._process = pinned(
            REST,
            [*program("load"), mode, str(port), *(f"{one:g}" for one in more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{len(request)}\n{request.decode()}")
        self._process.stdin.flush()

    def told(self) -> Any:
        """Return the next line that it says."""
        return json.loads(line(self._process.stdout))

    def close(self) -> None:
        """Let it close what it holds."""
        assert self._process.stdin is not None
        self._process.stdin.write("close\n")
        self._process.stdin.flush()
        self.told()

    def end(self) -> None:
        """Wait for its end, or bring it about."""
        end(self._process)


def line(source: IO[str] | None) -> str:
    """Return the next line of a program.

    Raises:
        EOFError: it said none.
    """
    assert source is not None
    text = source.readline()
    if not text:
        raise EOFError("a program of the benchmark ended early")
    return text
