"""Pinned wheels from the package index that this machine is configured for.

pip or uv does it, in a process group of its own, with the machine's own configuration: no address
of an index is known here. Only wheels whose sha256 was given are accepted, and nothing of them is
imported or put on this program's own path.
"""

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut, Unreachable
from llmgw.base.units import show_bytes
from llmgw.base.world import Child, Processes
from llmgw.model.catalog import PackageRef
from llmgw.model.shard import Progress
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.patience import done_within
from llmgw_agent.parse import package_log

STALL = 180.0
"""Seconds without a byte after which an install is given up; pip's own retries take up to 90."""

_LOOK_EVERY = 0.5
_LOG_MOST = 256 << 10
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NOT_PASSED_ON = ("LLMGW_", "PYTHON", "PIP_TARGET", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")

Tell = Callable[[Progress], None]


class PackageIndex:
    """Installs pinned wheels into a directory.

    Args:
        processes: starts pip or uv.
        clock: the time.
        environ: this process's environment; where the index is and how it is reached stands there
            or in the machine's configuration of pip or uv.
        machine: named when there is no wheel for it.
        tool: the installer's argv; found when it is None.
    """

    def __init__(
        self,
        processes: Processes,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        machine: Machine,
        tool: Sequence[str] | None = None,
    ) -> None:
        self._processes = processes
        self._clock = clock
        self._environ = {k: v for k, v in environ.items() if not k.startswith(_NOT_PASSED_ON)}
        self._machine = machine
        self._tool = tool

    async def install(
        self, packages: Sequence[PackageRef], target: Path, *, work: Path, what: str, tell: Tell
    ) -> None:
        """Unpack the wheels below `target`.

        Args:
            packages: the wheels, each with its sha256.
            target: a directory of nothing else, on the filesystem of `work`.
            work: where downloads land meanwhile; removed at the end.
            what: what is being fetched, for the progress line.
            tell: told how many bytes have come; there is no total that could be relied on.

        Raises:
            Unreachable: no index can be reached.
            NotFound: the index has no such wheel for this machine.
            Refused: another sha256, a full disk, no pip and no uv, a name that is none.
            TimedOut: no byte came for `STALL` seconds.
        """
        argv = (*self._installer(), *_options(target, work / "requirements.txt"))
        shutil.rmtree(work, ignore_errors=True)
        (work / "tmp").mkdir(parents=True, mode=0o700)
        (work / "requirements.txt").write_text(requirements(packages))
        log = work / "log"
        try:
            child = await self._processes.start(
                argv, env=self._env(work / "tmp"), log=log, outlives=False
            )
            rc = await self._watch(child, work, target, what, tell)
            if rc != 0:
                raise self._failure(_end_of(log))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _installer(self) -> Sequence[str]:
        if self._tool is not None:
            return self._tool
        if importlib.util.find_spec("pip") is not None:
            return _PIP
        if importlib.util.find_spec("uv") is not None:
            return (sys.executable, "-m", *_UV)
        if (uv := shutil.which("uv", path=self._environ.get("PATH"))) is not None:
            return (uv, *_UV[1:])
        raise Refused(
            "neither pip nor uv is there to install packages with",
            hint="install python3-pip or uv for this Python",
        )

    def _env(self, temporary: Path) -> dict[str, str]:
        return {**self._environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}

    async def _watch(self, child: Child, work: Path, target: Path, what: str, tell: Tell) -> int:
        """Return the exit status; kill the whole group on a stall or a cancel."""
        ended = asyncio.ensure_future(child.wait())
        last, since = -1, self._clock.monotonic()
        try:
            while not ended.done():
                count = used_bytes(work) + used_bytes(target)
                if count != last:
                    last, since = count, self._clock.monotonic()
                    tell(_progress(work / "tmp", target, what))
                elif self._clock.monotonic() - since > STALL:
                    raise TimedOut(
                        f"{what}: no byte came for {STALL:g} s, {show_bytes(last)} so far"
                    )
                await done_within(self._clock, ended, _LOOK_EVERY)
            return await ended
        finally:
            if not ended.done():
                self._processes.signal_group(child.pid, signal.SIGKILL)
                await asyncio.wait({ended}, timeout=5)
                ended.cancel()

    def _failure(self, text: str) -> LlmgwError:
        failure = package_log.read_failure(text, self._machine.words())
        kinds = {
            package_log.UNREACHABLE: Unreachable,
            package_log.NO_WHEEL: NotFound,
            package_log.WRONG_HASH: Refused,
            package_log.DISK_FULL: Refused,
        }
        return kinds.get(failure.kind, LlmgwError)(failure.words)


_PIP = (
    *(sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-compile", "--no-input"),
    *("--no-color", "--progress-bar=off", "--disable-pip-version-check", "--retries=2"),
)
_UV = (
    *("uv", "pip", "install", "--no-cache", "--no-progress", "--color=never"),
    f"--python={sys.executable}",
)


def _options(target: Path, requirements_file: Path) -> tuple[str, ...]:
    return (
        *("--target", str(target), "--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("-r", str(requirements_file)),
    )


def requirements(packages: Sequence[PackageRef]) -> str:
    """Return the requirements file of pinned wheels.

    Raises:
        Refused: a name, a version or a sha256 is none: nothing else may reach the installer.
    """
    for package in packages:
        if not _NAME.match(package.name) or not _VERSION.match(package.version):
            raise Refused(f"{package.name!r} {package.version!r} is no package and version")
        if not _SHA256.match(package.sha256):
            raise Refused(f"{package.name}: {package.sha256!r} is no sha256 in hexadecimal")
    return "".join(f"{p.name}=={p.version} --hash=sha256:{p.sha256}\n" for p in packages)


def used_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory; one that vanishes counts nothing."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(root) / name).lstat().st_size
            except OSError:
                continue
    return total


def _end_of(log: Path) -> str:
    """Return the last words of an installer, which may have written without end."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_MOST))
        return file.read(_LOG_MOST).decode(errors="replace")


def _progress(temporary: Path, target: Path, what: str) -> Progress:
    """Return the line for people: the index is asked, wheels come, then they are unpacked."""
    if target.exists() or any(temporary.glob("pip-target-*/*")):
        return Progress(words=f"unpacking {what}")
    count = used_bytes(temporary)
    if count == 0:
        return Progress(words=f"asking the package index for {what}")
    return Progress(words=f"downloading {what}", done_bytes=count)
