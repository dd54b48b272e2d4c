"""Engines whose helper processes find and do what a test sets."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, TimedOut
from llmgw.model.catalog import PackageRef
from llmgw.model.node import InstalledEngine
from llmgw.model.record import Record
from llmgw.model.settings import EngineBuild, EngineOrder
from llmgw.model.shard import Progress
from llmgw_agent.engines.install import Installation, directory_of
from llmgw_agent.engines.install_side import Broken, Brought, Install, Look, Seen
from llmgw_agent.engines.programs import Programs
from llmgw_agent.host.machine import Machine
from tests.fakes.clock import FakeClock, settle
from tests.fakes.helper import FakeHelper

ROOT = Path("/engines")
HERE = Machine(architecture="x86_64", glibc="2.36")
BUILD = EngineBuild(
    version="1.0",
    packages=(PackageRef(name="llama", version="1.0", sha256="0" * 64),),
    program="llama/bin/llama-server",
)
NEWER = msgspec.structs.replace(BUILD, version="2.0")
ORDER = EngineOrder(builds=(BUILD,))
BOTH = EngineOrder(builds=(NEWER, BUILD))


def installation(build: EngineBuild = BUILD, *, at: float = 1.0) -> Installation:
    place = directory_of(ROOT, "llamacpp", build)
    path = str(place / "packages" / build.program)
    return Installation(
        engine="llamacpp",
        version=build.version,
        place=str(place),
        path=path,
        start=(path,),
        libraries=(str(place / "packages/llama/bin"),),
        back_ends=("cpu", "vulkan"),
        at=at,
    )


class Node:
    """What the helper processes find and do, as the test sets it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.running: list[Installation] = []
        self.broken: list[Broken] = []
        self.install: LlmgwError | None = None
        """Why nothing can be brought."""
        self.unfit: dict[str, Brought] = {}
        """By version: what comes of a build that does not run here."""
        self.requests: list[Install | Look] = []
        self.held = False
        self.silent = False
        self.helpers: list[FakeHelper] = []
        self.progress: list[Progress] = []
        self.changes = 0
        self.made: Programs | None = None
        self.words: list[str] = []
        """Everything that was ever said of an engine."""

    def programs(self, machine: Machine = HERE, own: dict[str, str] | None = None) -> Programs:
        self.made = Programs(
            ROOT,
            own or {},
            machine=machine,
            new_helper=self._helper,
            clock=self.clock,
            rng=random.Random(1),
            llmgw_version="0.1.0",
            interpreter=Path("/usr/bin/python3"),
            changed=self._changed,
        )
        return self.made

    def installs(self) -> int:
        return sum(1 for request in self.requests if isinstance(request, Install))

    def looks(self) -> list[Look]:
        return [request for request in self.requests if isinstance(request, Look)]

    def _changed(self) -> None:
        self.changes += 1
        if self.made is not None:
            self.words += [e.words for e in self.made.installed() if e.words is not None]

    def _helper(self) -> FakeHelper:
        helper = FakeHelper(self._answer)
        helper.tell = self.progress
        if self.held:
            helper.hold()
        self.helpers.append(helper)
        return helper

    def _answer(self, request: Install | Look) -> Record | LlmgwError:
        self.requests.append(request)
        if self.silent:
            return TimedOut("install_side: no answer within 300 s")
        if isinstance(request, Look):
            return Seen(running=tuple(self.running), broken=tuple(self.broken))
        if self.install is not None:
            return self.install
        if request.build.version in self.unfit:
            return self.unfit[request.build.version]
        found = installation(request.build)
        self.running.append(found)
        self.broken = [one for one in self.broken if one.place != found.place]
        return Brought(found=found)


@asynccontextmanager
async def running(programs: Programs) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(programs.run())
        await settle()
        yield
        task.cancel()


def entry(programs: Programs, engine: str = "llamacpp") -> InstalledEngine:
    return next(e for e in programs.installed() if e.engine == engine)


def broken(build: EngineBuild, *, slow: bool = False) -> Broken:
    return Broken(
        engine="llamacpp",
        version=build.version,
        place=str(directory_of(ROOT, "llamacpp", build)),
        words="llama-server lacks libgomp.so.1",
        by_operator=False,
        slow=slow,
    )
