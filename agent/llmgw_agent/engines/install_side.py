"""The helper process that installs engines and looks whether they still run.

Run as `python -m llmgw_agent.engines.install_side`.
"""

import os
from pathlib import Path

import msgspec

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, TimedOut
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.model.record import Record
from llmgw.model.settings import EngineBuild
from llmgw_agent.engines.install import (
    Installation,
    Installer,
    called,
    installed_directories,
    read_marker,
)
from llmgw_agent.engines.proof import DoesNotRun, Unfit
from llmgw_agent.host.helper_once import Say, serve_one
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex, Tell


class Install(Record, frozen=True, kw_only=True, tag_field="kind", tag="install"):
    """Bring one build of an engine below `root`."""

    root: str
    engine: str
    build: EngineBuild


class Brought(Record, frozen=True, kw_only=True):
    """What came of it: the installation, or why this build is none for this machine."""

    found: Installation | None = None
    words: str = ""
    for_ever: bool = False
    """The processor can't run it: there is no point in trying again."""


class Look(Record, frozen=True, kw_only=True, tag_field="kind", tag="look"):
    """See which engines run: llmgw's own below `root`, and an operator's by path."""

    root: str
    own: dict[str, str] = msgspec.field(default_factory=dict)
    run: bool = True
    """False only sees that the programs are there."""


class Broken(Record, frozen=True, kw_only=True):
    """An engine that is there and does not run."""

    engine: str
    version: str | None
    place: str
    words: str
    by_operator: bool
    slow: bool = False
    """It did not end in time, which proves nothing."""


class Seen(Record, frozen=True, kw_only=True):
    """What runs and what does not."""

    running: tuple[Installation, ...]
    broken: tuple[Broken, ...]


async def look(installer: Installer, request: Look) -> Seen:
    """Return what is there; run every engine's `--version` where the request says so."""
    running: list[Installation] = []
    broken: list[Broken] = []
    for directory in installed_directories(Path(request.root)):
        marker = read_marker(directory)
        try:
            running.append(await installer.prove(directory, run=request.run))
        except LlmgwError as error:
            if marker is not None:
                broken.append(_broken(marker.engine, marker.build.version, directory, error))
    for engine, path in request.own.items():
        try:
            running.append(await installer.prove_own(engine, Path(path), run=request.run))
        except LlmgwError as error:
            broken.append(_broken(engine, None, Path(path), error, by_operator=True))
    return Seen(running=tuple(running), broken=tuple(broken))


def _broken(
    engine: str, version: str | None, place: Path, error: LlmgwError, *, by_operator: bool = False
) -> Broken:
    return Broken(
        engine=engine,
        version=version,
        place=str(place),
        words=_in_words(error),
        by_operator=by_operator,
        slow=isinstance(error, TimedOut),
    )


async def bring(installer: Installer, request: Install, tell: Tell) -> Brought:
    """Bring a build; what only shows that this build is none for this machine is an answer.

    Raises:
        LlmgwError: what another build would meet as well: no index, a full disk, another sha256.
    """
    try:
        found = await installer.install(request.engine, request.build, tell)
    except Unfit as error:
        return Brought(words=_in_words(error), for_ever=True)
    except DoesNotRun as error:
        return Brought(words=_in_words(error))
    except NotFound as error:
        # The index has no such wheel for this machine.
        return Brought(words=f"{called(request.engine, request.build)}: {_in_words(error)}")
    return Brought(found=found)


def _in_words(error: LlmgwError) -> str:
    return error.message if error.hint is None else f"{error.message}: {error.hint}"


def installer(root: Path) -> Installer:
    """Return this machine's installer."""
    environ, clock, processes = os.environ, SystemClock(), SystemProcesses()
    machine = Machine.here()
    index = PackageIndex(processes, clock, environ=environ, machine=machine)
    return Installer(
        root,
        processes,
        SystemFiles(),
        index,
        clock,
        machine=machine,
        search_path=environ.get("PATH", os.defpath),
    )


async def _answer(line: bytes, tell: Say) -> Record:
    request = msgspec.json.decode(line, type=Install | Look)
    match request:
        case Install(root=root):
            return await bring(installer(Path(root)), request, tell)
        case Look(root=root):
            return await look(installer(Path(root)), request)


if __name__ == "__main__":
    serve_one(_answer)
