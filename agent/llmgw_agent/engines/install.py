"""One build's installation: brought from packages, proven to run, only then marked installed.

It happens in a helper process (`engines.install_side`): downloads take minutes and the directory
may lie on a network filesystem.
"""

import hashlib
import re
import shutil
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut
from llmgw.base.units import show_bytes
from llmgw.base.world import Files, Processes
from llmgw.model.catalog import LLAMACPP
from llmgw.model.record import Record
from llmgw.model.settings import XLLAMACPP, EngineBuild
from llmgw.model.shard import Progress
from llmgw_agent.engines.proof import (
    DoesNotRun,
    Prover,
    Runnable,
    Unfit,
    first_line,
    runnable_of,
)
from llmgw_agent.host.lock_wait import waited_for
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex, Tell
from llmgw_agent.parse.engine_version import version_of

NAMES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang", "simulated": "simulated"}
"""What people call an engine."""

ROOM = 1_000_000_000
"""Bytes that must be free before an install begins: wheels lie beside what is unpacked."""

_MARKER = "installed.json"
_UNPACKED = "unpacked.json"
_PACKAGES = "packages"
_BACK_END = re.compile(r"libggml-([a-z0-9]+)\.so\Z")
_NO_BACK_ENDS = frozenset({"base", "rpc"})


class Installation(Record, frozen=True, kw_only=True):
    """An engine that is on this node and was seen to run. `at`: seconds since the epoch."""

    engine: str
    version: str | None = None
    place: str
    """The directory that is marked installed; an operator's: the program."""
    path: str
    """The program, or the library that a launcher runs."""
    start: tuple[str, ...] = ()
    """What its command line begins with."""
    libraries: tuple[str, ...] = ()
    back_ends: tuple[str, ...] | None = None
    said: str | None = None
    """The first line of what its `--version` printed."""
    at: float
    by_operator: bool = False


class Marker(Record, frozen=True, kw_only=True):
    """What marks a directory as installed. `at`: seconds since the epoch."""

    engine: str
    build: EngineBuild
    at: float


class Verdict(Record, frozen=True, kw_only=True):
    """Kept beside a build's directory: processors like this one can't run it.

    The file's name holds the processor's, since machines of other kinds may share the directory.
    """

    words: str
    at: float


def directory_of(root: Path, engine: str, build: EngineBuild) -> Path:
    """Return where a build is installed: what unpacks to something else has another place."""
    content = [build.packages, build.program, build.libraries, build.launcher]
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
    version = re.sub(r"[^A-Za-z0-9._-]", "_", build.version)
    return root / engine / f"{version}-{digest}"


class Installer:
    """Brings and proves engines below one directory.

    Args:
        root: llmgw's own directory of engines.
        processes: runs `ldd` and the engines.
        files: asked for the free space.
        index: brings the packages.
        clock: the time.
        machine: what the engines have to run on.
        search_path: PATH for what is run.
    """

    def __init__(
        self,
        root: Path,
        processes: Processes,
        files: Files,
        index: PackageIndex,
        clock: Clock,
        *,
        machine: Machine,
        search_path: str,
    ) -> None:
        self._root = root
        self._files = files
        self._index = index
        self._clock = clock
        self._machine = machine
        self._prover = Prover(processes, machine, search_path=search_path)

    async def install(self, engine: str, build: EngineBuild, tell: Tell) -> Installation:
        """Bring a build to this node, unless it is here and runs.

        Raises:
            Unfit: it can't run on this processor. That is remembered, so that it is brought once.
            LlmgwError: in words; nothing is marked installed then. What was unpacked stays for the
                next try when only running it failed.
        """
        target = directory_of(self._root, engine, build)
        waiting = Progress(words="waiting for another process that installs the same")
        lock = target.with_name(f"{target.name}.lock")
        async with waited_for(lock, self._clock, lambda: tell(waiting)):
            if read_marker(target) is not None:
                try:
                    return await self.prove(target)
                except (TimedOut, Unfit):
                    raise
                except LlmgwError:
                    tell(Progress(words=f"replacing {called(engine, build)}: it no longer runs"))
            self._check_verdict(target)
            work = target.with_name(f"{target.name}.partial")
            await self._unpack(engine, build, work, tell)
            tell(Progress(words=f"checking {called(engine, build)}"))
            await self._prove_new(engine, build, work, target)
            marker = Marker(engine=engine, build=build, at=self._clock.now())
            (work / _MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(marker)))
            shutil.rmtree(target, ignore_errors=True)
            work.rename(target)
            return await self.prove(target)

    async def prove(self, directory: Path, *, run: bool = True) -> Installation:
        """Return the installation in a directory, seen to run just now.

        Args:
            directory: where it lies.
            run: False only sees that the program is there.

        Raises:
            NotFound: nothing is installed there.
            Refused: it does not run, in words.
            TimedOut: it did not end; that is no proof of anything.
        """
        marker = read_marker(directory)
        if marker is None:
            raise NotFound(f"{directory}: nothing is installed there")
        engine, build = marker.engine, marker.build
        runnable = runnable_of(called(engine, build), build, directory / _PACKAGES)
        said = ""
        if run:
            said = await self._prover.seen_to_run(runnable, computes=engine == LLAMACPP)
        return _installation(marker, directory, runnable, said)

    async def prove_own(self, engine: str, path: Path, *, run: bool = True) -> Installation:
        """Return an operator's own engine, seen to run just now; else as `prove`."""
        _check_own(path)
        runnable = Runnable(called=path.name, file=path, start=(str(path),))
        said = ""
        if run:
            said = await self._prover.seen_to_run(runnable, computes=engine == LLAMACPP)
        return Installation(
            engine=engine,
            version=version_of(said),
            place=str(path),
            path=str(path),
            start=runnable.start,
            said=first_line(said) if run else None,
            at=self._clock.now(),
            by_operator=True,
        )

    async def _prove_new(self, engine: str, build: EngineBuild, work: Path, target: Path) -> None:
        runnable = runnable_of(called(engine, build), build, work / _PACKAGES)
        try:
            await self._prover.seen_to_run(runnable, computes=engine == LLAMACPP)
        except Unfit as error:
            verdict = Verdict(words=error.message, at=self._clock.now())
            self._verdict(target).write_bytes(msgspec.json.format(msgspec.json.encode(verdict)))
            shutil.rmtree(work, ignore_errors=True)
            raise
        except TimedOut as error:
            # Nothing is known of it that could speak for it.
            raise DoesNotRun(f"{called(engine, build)}: {error.message}") from error

    def _check_verdict(self, target: Path) -> None:
        try:
            verdict = msgspec.json.decode(self._verdict(target).read_bytes(), type=Verdict)
        except (OSError, msgspec.DecodeError):
            return
        raise Unfit(verdict.words)

    def _verdict(self, target: Path) -> Path:
        return target.with_name(f"{target.name}.unfit-{self._machine.processor()}.json")

    async def _unpack(self, engine: str, build: EngineBuild, work: Path, tell: Tell) -> None:
        if (work / _UNPACKED).exists():
            return
        if not build.packages:
            raise Refused(f"{called(engine, build)}: the order names no packages")
        _emptied(work)
        self._check_space(engine)
        await self._index.install(
            build.packages,
            work / _PACKAGES,
            work=work / "install",
            what=NAMES.get(engine, engine),
            tell=tell,
        )
        (work / _UNPACKED).write_bytes(msgspec.json.encode(build))

    def _check_space(self, engine: str) -> None:
        space = self._files.space(self._root)
        if space is not None and space.free < ROOM:
            raise Refused(
                f"{show_bytes(space.free)} free below {self._root}, "
                f"installing {NAMES.get(engine, engine)} needs {show_bytes(ROOM)}",
                hint="free some space, or give the agent another engines_dir",
            )


def called(engine: str, build: EngineBuild) -> str:
    """Return what people call a build: `llama.cpp 1.0`."""
    return f"{NAMES.get(engine, engine)} {build.version}"


def read_marker(directory: Path) -> Marker | None:
    """Return the marker of an installed directory; None when it is none."""
    try:
        return msgspec.json.decode((directory / _MARKER).read_bytes(), type=Marker)
    except (OSError, msgspec.DecodeError):
        return None


def installed_directories(root: Path) -> tuple[Path, ...]:
    """Return the directories below llmgw's own that are marked installed."""
    return tuple(sorted(marker.parent for marker in root.glob(f"*/*/{_MARKER}") if _whole(marker)))


def _whole(marker: Path) -> bool:
    return not marker.parent.name.endswith(".partial")


def _installation(marker: Marker, directory: Path, runnable: Runnable, said: str) -> Installation:
    return Installation(
        engine=marker.engine,
        version=marker.build.version,
        place=str(directory),
        path=str(runnable.file),
        start=runnable.start,
        libraries=tuple(str(library) for library in runnable.libraries),
        back_ends=_back_ends(marker.build, runnable) if marker.engine == LLAMACPP else None,
        said=first_line(said) if said else None,
        at=marker.at,
    )


def _back_ends(build: EngineBuild, runnable: Runnable) -> tuple[str, ...] | None:
    """Return the back ends that a build brings, by the libraries that hold them."""
    if build.launcher == XLLAMACPP:
        # One library holds everything; the wheel of the package index has the CPU's alone.
        return ("cpu",)
    names = {path.name for lib in runnable.libraries for path in lib.glob("libggml-*.so")}
    found = {match[1] for name in names if (match := _BACK_END.match(name)) is not None}
    return tuple(sorted(found - _NO_BACK_ENDS)) or None


def _check_own(path: Path) -> None:
    if not path.is_file():
        raise Refused(f"{path}: no such file", hint="correct the path in the agent's file")


def _emptied(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
