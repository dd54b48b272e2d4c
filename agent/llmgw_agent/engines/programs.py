"""The engines of this node: what was ordered, what is there, and which program runs a shard."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.log import get
from llmgw.base.periodic import Periodic
from llmgw.model.catalog import LLAMACPP, SIMULATED
from llmgw.model.node import FAILED, INSTALLED, INSTALLING, InstalledEngine
from llmgw.model.settings import LLAMACPP_DEFAULT, EngineBuild, EngineOrder
from llmgw.model.shard import Progress
from llmgw_agent.engines.adapter import Program as AnyProgram
from llmgw_agent.engines.install import called, directory_of
from llmgw_agent.engines.install_side import Brought, Install, Look, Seen
from llmgw_agent.engines.program import Program, own_program, program_of
from llmgw_agent.engines.seen import (
    NOTHING,
    as_broken,
    as_installed,
    how_far,
    installed_since,
    merged,
    name_of,
    name_of_version,
    sentence,
    with_new,
    without,
)
from llmgw_agent.engines.wanted import Wanted
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.machine import Machine

log = get(__name__)

LOOK_PERIOD = 60.0
PROVE_PERIOD = 600.0
_CONVERGE_PERIOD = 15.0
_SILENCE = 300.0
_A = TypeVar("_A")


class Programs:
    """Keeps this node's engines as they were ordered.

    Of an order's builds the first that runs on this machine is brought; one that can't is passed
    over with its reason. A look each minute says what is there, and every ten minutes each engine
    is run again; what no longer runs leaves the list with its reason and is brought anew. An
    operator's own engine is reported and never replaced.

    Args:
        root: llmgw's own directory of engines.
        own: an operator's engines, path by name.
        machine: decides what can run here at all.
        new_helper: makes the helper process of one install or look (`engines.install_side`).
        clock, rng: the time, and what spreads retries.
        llmgw_version: the simulated engine's version.
        interpreter: the program that runs the simulated engine.
        changed: called when `installed` changed.
    """

    def __init__(
        self,
        root: Path,
        own: Mapping[str, str],
        *,
        machine: Machine,
        new_helper: Callable[[], Helper],
        clock: Clock,
        rng: random.Random,
        llmgw_version: str,
        interpreter: Path,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._root = root
        self._own = dict(own)
        self._machine = machine
        self._new_helper = new_helper
        self._clock = clock
        self._rng = rng
        self._simulated = Program(path=interpreter, version=llmgw_version)
        self._changed = changed
        self._wanted: dict[str, Wanted] = {}
        self._seen: Seen | None = None
        self._ran: set[str] = set()
        self._distrusted: dict[str, str] = {}
        self._proven_at = float("-inf")
        self._looks = Periodic("engines", lambda: LOOK_PERIOD, self._look, clock)
        self._converges = Periodic(
            "engine installs", lambda: _CONVERGE_PERIOD, self._converge, clock
        )

    @property
    def probed(self) -> bool:
        """Whether anybody looked yet: none found differs from not looked."""
        return self._seen is not None

    async def run(self) -> None:
        """Look and converge until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._looks.run_forever())
            group.create_task(self._converges.run_forever())

    def order(self, orders: Mapping[str, EngineOrder]) -> None:
        """Take what every node shall have. What is there beyond that stays."""
        for engine in self._wanted.keys() - orders.keys():
            del self._wanted[engine]
        for engine, order in orders.items():
            known = self._wanted.get(engine)
            if known is None or known.order != order:
                self._wanted[engine] = Wanted(order)
        self._converges.wake()
        self._changed()

    def can_install(self) -> tuple[str, ...]:
        """Return the engines that this agent could install on this machine."""
        wanted = self._wanted.get(LLAMACPP)
        order = LLAMACPP_DEFAULT if wanted is None else wanted.order
        possible = any(self._refusal(LLAMACPP, build) is None for build in order.builds)
        return (LLAMACPP,) if possible else ()

    def distrust(self, program: AnyProgram, words: str) -> None:
        """Take off a program that computes nothing here, until this agent ends.

        Its `--version` runs, so only a shard that met an instruction which this processor does not
        have could tell. The next of the order's builds is brought instead. An operator's own engine
        stays: what is wrong with it is for the operator to see.
        """
        if self._seen is None:
            return
        for found in self._seen.running:
            if found.path == str(program.path) and not found.by_operator:
                log.warning("engine computes nothing here", version=found.version, words=words)
                self._distrusted[found.place] = (
                    f"{name_of_version(found.engine, found.version)}: {words}"
                )
        self._take(self._seen)
        self._converges.wake()

    def program(self, engine: str, version: str | None = None) -> Program:
        """Return the program that runs an engine.

        Args:
            engine: its name.
            version: None for the one that was ordered, or the newest there is.

        Raises:
            Refused: it is not installed yet, or failed to, in the node's own words.
            NotFound: nobody ordered it for this node.
        """
        if engine == SIMULATED:
            return self._simulated
        if self._seen is None:
            raise Refused(f"this node has not looked for {name_of(engine)} yet")
        wanted = self._wanted.get(engine)
        found = [i for i in self._seen.running if i.engine == engine]
        own = next((i for i in found if i.by_operator), None)
        if own is not None:
            return own_program(own, version)
        if wanted is not None and version is None:
            places = self._places(engine, wanted)
            found = sorted((i for i in found if i.place in places), key=lambda i: places[i.place])
        else:
            found = sorted(found, key=lambda i: i.at, reverse=True)
        for installation in found:
            if version in (None, installation.version):
                return program_of(installation)
        raise self._why_not(engine, version)

    def installed(self) -> tuple[InstalledEngine, ...]:
        """Return every engine that is there, on its way, or failed, with the node's own words."""
        engines = [
            InstalledEngine(
                engine=SIMULATED,
                version=self._simulated.version,
                state=INSTALLED,
                path=str(self._simulated.path),
                back_ends=(SIMULATED,),
            )
        ]
        seen = self._seen or NOTHING
        engines += [as_installed(found) for found in seen.running]
        ordered = [self._as_wanted(engine) for engine in self._wanted]
        engines += [entry for entry in ordered if entry is not None]
        told = {
            place
            for engine in (entry.engine for entry in ordered if entry is not None)
            for place in self._places(engine, self._wanted[engine])
        }
        # What never ran under this agent and nobody orders is a leftover, not a failure.
        engines += [
            as_broken(broken)
            for broken in seen.broken
            if broken.by_operator or (broken.place in self._ran and broken.place not in told)
        ]
        return tuple(engines)

    def _as_wanted(self, engine: str) -> InstalledEngine | None:
        """Return the entry of an order that is being brought or not fulfilled, else None."""
        wanted = self._wanted[engine]
        if self._is_own(engine) or (wanted.bringing is None and self._fulfilled(engine, wanted)):
            return None
        words = f"installing: {wanted.words}" if wanted.state == INSTALLING else wanted.words
        build = wanted.bringing or self._next(engine, wanted)
        return InstalledEngine(
            engine=engine,
            version=build.version if build is not None else None,
            state=wanted.state,
            words=words,
            by_operator=False,
        )

    def _next(self, engine: str, wanted: Wanted) -> EngineBuild | None:
        """Return the build that would be brought now; None: none can be."""
        builds = wanted.order.builds
        return next((b for b in builds if self._passed_over(engine, wanted, b) is None), None)

    def _is_own(self, engine: str) -> bool:
        return engine in self._own

    def _fulfilled(self, engine: str, wanted: Wanted) -> bool:
        return any(self._runs(place) for place in self._places(engine, wanted))

    def _runs(self, place: str) -> bool:
        return self._seen is not None and any(i.place == place for i in self._seen.running)

    def _places(self, engine: str, wanted: Wanted) -> dict[str, int]:
        """Return the places of an order's builds, with how far from the first each one is."""
        builds = wanted.order.builds
        return {self._place(engine, build): rank for rank, build in enumerate(builds)}

    def _place(self, engine: str, build: EngineBuild) -> str:
        return str(directory_of(self._root, engine, build))

    def _refusal(self, engine: str, build: EngineBuild) -> str | None:
        """Return why a build can't run on this machine, as far as that is known without it."""
        why = self._machine.refuses(build.architecture, build.glibc) or self._machine.lacks(
            build.needs
        )
        return None if why is None else f"{called(engine, build)} {why}"

    def _why_not(self, engine: str, version: str | None) -> LlmgwError:
        if (words := self._why_not_ordered(engine, version)) is not None:
            return Refused(words)
        for broken in self._seen.broken if self._seen is not None else ():
            if broken.engine == engine and version in (None, broken.version):
                return Refused(f"{name_of_version(engine, broken.version)}: {broken.words}")
        return NotFound(
            f"{name_of_version(engine, version)} is not installed on this node and not ordered",
            hint="see `llmgw ctl config get engines`",
        )

    def _why_not_ordered(self, engine: str, version: str | None) -> str | None:
        """Return why an order did not bring a version, or any; None: it is not ordered."""
        wanted = self._wanted.get(engine)
        if wanted is None:
            return None
        builds = [b for b in wanted.order.builds if version in (None, b.version)]
        reasons = [self._passed_over(engine, wanted, build) for build in builds]
        entry = self._as_wanted(engine)
        if builds and version is not None and None not in reasons:
            return "; ".join(reason for reason in reasons if reason is not None)
        if builds and entry is not None:
            return f"{name_of_version(engine, entry.version)}: {entry.words}"
        return f"{called(engine, builds[0])} comes after a build that runs here" if builds else None

    async def _look(self) -> str:
        """See what is there; run each engine when that was ten minutes ago."""
        now = self._clock.monotonic()
        run = self._seen is None or now - self._proven_at >= PROVE_PERIOD
        request = Look(root=str(self._root), own=self._own, run=run)
        before = self._seen
        seen = await self._ask(request, Seen)
        if run:
            self._proven_at = now
        if before is not None:
            seen = merged(before, seen, run=run)
            self._tell_broken(before, seen)
        for installed in installed_since(before, self._seen):
            seen = with_new(seen, installed)
        self._take(seen)
        return sentence(self._seen or seen)

    def _tell_broken(self, before: Seen, now: Seen) -> None:
        """Say of an ordered engine that ran before why it no longer does."""
        ran = {found.place for found in before.running}
        broken = {found.place: found.words for found in now.broken if found.place in ran}
        for engine, wanted in self._wanted.items():
            for place in self._places(engine, wanted).keys() & broken.keys():
                self._note(wanted, FAILED, f"no longer runs: {broken[place]}")

    async def _converge(self) -> str:
        """Bring what was ordered and is not there, one after the other."""
        if self._seen is None:
            return "waits for the first look"
        for engine in tuple(self._wanted):
            wanted = self._wanted.get(engine)
            if wanted is not None and not self._is_own(engine):
                await self._bring(engine, wanted)
        states = {engine: self._state(engine) for engine in sorted(self._wanted)}
        return (
            ", ".join(f"{name_of(e)} {state}" for e, state in states.items()) or "nothing ordered"
        )

    def _state(self, engine: str) -> str:
        entry = self._as_wanted(engine)
        return INSTALLED if entry is None else entry.words or FAILED

    async def _bring(self, engine: str, wanted: Wanted) -> None:
        """See that the first build of an order that runs here is here."""
        if self._clock.monotonic() < wanted.next_try:
            return
        reasons: list[str] = []
        for build in wanted.order.builds:
            if self._runs(self._place(engine, build)):
                wanted.failures = 0
                return
            why = self._passed_over(engine, wanted, build)
            if why is None:
                try:
                    why = await self._try(engine, wanted, build)
                except LlmgwError as error:
                    self._failed(engine, wanted, error)
                    return
                if why is None or self._wanted.get(engine) is not wanted:
                    return
            reasons.append(why)
        self._note(wanted, FAILED, f"no build runs here: {'; '.join(reasons)}")

    def _passed_over(self, engine: str, wanted: Wanted, build: EngineBuild) -> str | None:
        """Return why a build is not to be brought now; None when it is."""
        place = self._place(engine, build)
        refusal = self._refusal(engine, build)
        if refusal is not None or place in self._distrusted:
            return refusal or self._distrusted[place]
        return wanted.passed_over(place, self._clock.monotonic())

    async def _try(self, engine: str, wanted: Wanted, build: EngineBuild) -> str | None:
        """Bring one build; return why it does not run here, None when it does.

        Raises:
            LlmgwError: it could not be brought, and no other could be.
        """
        wanted.bringing = build
        self._note(wanted, INSTALLING, called(engine, build))
        request = Install(root=str(self._root), engine=engine, build=build)
        try:
            brought = await self._ask(
                request, Brought, lambda p: self._note(wanted, INSTALLING, how_far(p))
            )
        finally:
            wanted.bringing = None
        place, found = self._place(engine, build), brought.found
        if found is None:
            log.warning("engine passed over", engine=engine, words=brought.words)
            now, at = self._clock.monotonic(), self._spread()
            wanted.did_not_run(place, brought.words, for_ever=brought.for_ever, now=now, at=at)
            return brought.words
        wanted.tried.pop(place, None)
        log.info("engine installed", engine=engine, version=found.version, path=found.path)
        self._take(with_new(self._seen or NOTHING, found))
        return None

    def _failed(self, engine: str, wanted: Wanted, error: LlmgwError) -> None:
        now, at = self._clock.monotonic(), self._spread()
        wait = wanted.could_not_be_brought(error, now=now, at=at)
        log.warning("engine not installed", engine=engine, error=error.message, again_in=int(wait))
        self._changed()

    def _spread(self) -> float:
        return self._rng.uniform(0.5, 1.0)

    def _note(self, wanted: Wanted, state: str, words: str) -> None:
        if wanted.note(state, words):
            self._changed()

    def _take(self, seen: Seen) -> None:
        if self._seen is None:
            self._converges.wake()
        seen = without(seen, self._distrusted)
        self._ran.update(found.place for found in seen.running)
        if seen != self._seen:
            self._seen = seen
            self._changed()

    async def _ask(
        self,
        request: Install | Look,
        answer: type[_A],
        progress: Callable[[Progress], None] | None = None,
    ) -> _A:
        helper = self._new_helper()
        try:
            return await helper.ask(request, answer, silence=_SILENCE, progress=progress)
        finally:
            await helper.close()
