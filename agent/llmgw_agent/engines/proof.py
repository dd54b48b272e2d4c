"""What proves that an engine runs on this machine: its libraries, a run, and its processor."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from llmgw.base.errors import NotFound, Refused
from llmgw.base.world import Processes
from llmgw.model.settings import XLLAMACPP, EngineBuild
from llmgw_agent.host.machine import Machine
from llmgw_agent.parse.build_features import read_features
from llmgw_agent.parse.ldd import missing_libraries

PROVE_TIMEOUT = 60.0

LAUNCHER = Path(__file__).with_name("xllamacpp_server.py")
"""Runs in an interpreter of its own, so it is named by its path and never imported."""

_NO_MODEL = ("-m", "/nonexistent.gguf", "--port", "0", "-lv", "4")
"""Makes a llama.cpp server say what it was compiled for, and end."""

_HIDES_CARDS = {"CUDA_VISIBLE_DEVICES": "", "GGML_VK_VISIBLE_DEVICES": ""}
"""A proof must not take memory on a card that a replica has been given."""


class DoesNotRun(Refused):
    """It is here and does not run: what is missing may be brought later."""


class Unfit(Refused):
    """It can never run on this machine's processor."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """A program, or a library that a launcher runs."""

    called: str
    """As messages name it: `llama.cpp 1.0`."""
    file: Path
    """The program or the library itself."""
    start: tuple[str, ...]
    """What its command line begins with."""
    libraries: tuple[Path, ...] = ()


class Prover:
    """Runs engines to see whether they run.

    Args:
        processes: runs `ldd` and the engines.
        machine: what they run on.
        search_path: PATH for what is run.
    """

    def __init__(self, processes: Processes, machine: Machine, *, search_path: str) -> None:
        self._processes = processes
        self._machine = machine
        self._search_path = search_path

    async def seen_to_run(self, runnable: Runnable, *, computes: bool) -> str:
        """Return what its `--version` printed.

        Args:
            runnable: the engine.
            computes: whether it is a llama.cpp server, which says what it was compiled for.

        Raises:
            Unfit: it uses what this processor does not have.
            DoesNotRun: it does not run, in words.
            TimedOut: it did not end; that is no proof of anything.
        """
        env = {"PATH": self._search_path, "LC_ALL": "C", **_HIDES_CARDS}
        if runnable.libraries:
            env["LD_LIBRARY_PATH"] = ":".join(str(library) for library in runnable.libraries)
        await self._check_libraries(runnable, env)
        said = await self._run_version(runnable, env)
        if computes:
            await self._check_processor(runnable, env)
        return said

    async def _check_libraries(self, runnable: Runnable, env: dict[str, str]) -> None:
        argv = ["ldd", str(runnable.file)]
        try:
            done = await self._processes.run(argv, timeout=PROVE_TIMEOUT, env=env)
        except NotFound:
            # Without ldd running the program is proof enough; its words are only worse.
            return
        missing = missing_libraries(f"{done.out}\n{done.err}")
        if missing:
            raise DoesNotRun(
                f"{runnable.called}: {runnable.file.name} lacks {', '.join(missing)}",
                hint="install the operating system's package that brings it",
            )

    async def _run_version(self, runnable: Runnable, env: dict[str, str]) -> str:
        argv = [*runnable.start, "--version"]
        try:
            done = await self._processes.run(argv, timeout=PROVE_TIMEOUT, env=env)
        except NotFound as error:
            raise DoesNotRun(error.message) from error
        text = f"{done.out}\n{done.err}".strip()
        if done.rc == -signal.SIGILL:
            raise _ended_by_sigill(runnable)
        if done.rc != 0:
            how = f"exit status {done.rc}" if done.rc > 0 else f"signal {-done.rc}"
            words = f"{runnable.file.name} --version ended with {how}: {first_line(text)}"
            raise DoesNotRun(f"{runnable.called}: {words}")
        return text

    async def _check_processor(self, runnable: Runnable, env: dict[str, str]) -> None:
        """Raise Unfit for a build that uses instructions which this processor does not have.

        It is started without a model, says what it was compiled for, and ends.
        """
        argv = [*runnable.start, *_NO_MODEL]
        done = await self._processes.run(argv, timeout=PROVE_TIMEOUT, env=env)
        if done.rc == -signal.SIGILL:
            raise _ended_by_sigill(runnable)
        lacks = self._machine.lacks(read_features(f"{done.out}\n{done.err}"))
        if lacks is not None:
            raise Unfit(f"{runnable.called} {lacks}")


def first_line(text: str) -> str:
    """Return the first line that says anything."""
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "no output")


def inside(directory: Path, relative: str) -> Path:
    """Return a path inside a directory.

    Raises:
        Refused: it leaves it.
    """
    path = (directory / relative).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise Refused(f"{relative!r} leaves its package")
    return path


def runnable_of(called: str, build: EngineBuild, packages: Path) -> Runnable:
    """Return what runs a build.

    Args:
        called: what messages call it.
        build: which.
        packages: where its packages were unpacked.

    Raises:
        DoesNotRun: it is not in its packages.
        Refused: it would lie outside them.
    """
    file = inside(packages, build.program)
    libraries = tuple(inside(packages, library) for library in build.libraries)
    if not file.is_file():
        raise DoesNotRun(f"{called}: no {build.program} in its packages")
    start = _launched(packages) if build.launcher == XLLAMACPP else (str(file),)
    return Runnable(called=called, file=file, start=start, libraries=libraries)


def _launched(packages: Path) -> tuple[str, ...]:
    """Return how the launcher begins: in the agent's own interpreter, apart from the agent.

    `-I -S`: it finds the standard library alone, nothing that is installed for the agent; `-B`: it
    writes nothing into the packages.
    """
    return (sys.executable, "-I", "-S", "-B", str(LAUNCHER), str(packages.resolve()))


def _ended_by_sigill(runnable: Runnable) -> Unfit:
    words = "uses instructions that this processor does not have: signal SIGILL ended it"
    return Unfit(f"{runnable.called} {words}")
