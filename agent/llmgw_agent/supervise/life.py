"""One shard from its start, or its adoption, to its end."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from llmgw.base.errors import Refused
from llmgw.base.log import get
from llmgw.base.world import Child
from llmgw.model.shard import (
    BAD_BUILD,
    EXITED,
    FAILED,
    FETCHING,
    NOT_READY,
    OUT_OF_MEMORY,
    PORT_TAKEN,
    READY,
    STARTING,
    STOPPED,
    STOPPING,
    STUCK,
)
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.supervise.ending import anything_left, end_processes
from llmgw_agent.supervise.launch import launch, note_process, save
from llmgw_agent.supervise.means import Means, ShardFailed
from llmgw_agent.supervise.prepare import OptionsKnown, Prepared, prepare
from llmgw_agent.supervise.pulse import watch
from llmgw_agent.supervise.race import StopWanted, race
from llmgw_agent.supervise.ready import until_ready
from llmgw_agent.supervise.shard import Shard
from llmgw_agent.supervise.watchers import Watchers

log = get(__name__)

T = TypeVar("T")

FETCH_LIMIT = 6 * 3600.0
"""Seconds that weights may take to arrive where the profile sets no limit for the start."""

STOP_LIMIT = 15.0
"""Seconds between SIGTERM and SIGKILL for an engine that this agent does not know."""

ASKED_FOR = 10.0
"""Seconds for which an adopted engine is asked, however long ago it was launched."""

_LOOK = 0.5
_CAUSE_LINES = 200


class Life:
    """Runs one shard. It ends when nothing of the shard is left.

    Args:
        shard: whose life.
        means: the world.
        options: what is known of the programs' options.
        tasks: owns what runs beside it.
    """

    def __init__(self, shard: Shard, means: Means, options: OptionsKnown, tasks: Watchers) -> None:
        self._shard = shard
        self._means = means
        self._options = options
        self._tasks = tasks
        self._began = means.clock.monotonic()
        self._exit: asyncio.Task[int | None] | None = None

    async def run_new(self) -> None:
        """Start a shard and see it through to its end."""
        await self._run(self._start())

    async def run_adopted(self) -> None:
        """Watch a shard that a former agent started."""
        self._exit = self._tasks.create_task(self._until_gone())
        self._shard.log.resume()
        self._shard.log.note(
            "adopted by a restarted agent; lines before this one are from the log file"
        )
        await self._run(self._take_over())

    async def run_undescribed(self) -> None:
        """End processes that no record describes."""
        await self._finish(None, ask=False)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        tail = self._tasks.create_task(self._tail())
        try:
            await self._finish(await self._outcome(work), ask=True)
        finally:
            tail.cancel()

    async def _outcome(self, work: Coroutine[Any, Any, None]) -> ShardFailed | None:
        """Return why `work` failed; None when the shard was to be stopped."""
        try:
            await work
        except StopWanted:
            return self._hung()
        except ShardFailed as failure:
            return failure
        except Exception as fault:
            # The top of one shard's life: a fault here must not end the watch over the others.
            log.warning("a fault of the agent's", shard=self._shard.name, exc_info=fault)
            return ShardFailed(None, f"a fault of the agent's: {fault!r}")
        return None

    def _hung(self) -> ShardFailed | None:
        """Return what a shard failed of that is stopped because it is stuck: its output is kept."""
        shard = self._shard
        return ShardFailed(STUCK, shard.reason or "") if shard.state == STUCK else None

    async def _start(self) -> None:
        shard = self._shard
        prepared = await self._or_stop(
            prepare(shard, self._means, self._options), self._fetch_until()
        )
        if shard.state == FETCHING:
            shard.move(STARTING)
        try:
            await self._launch_until_ready(prepared)
        except ShardFailed as failure:
            if failure.cause == BAD_BUILD:
                self._means.programs.distrust(prepared.program, failure.message)
            raise
        await self._serve()

    async def _launch_until_ready(self, prepared: Prepared) -> None:
        """Launch; a port that turns out to be taken is worth one more try on another."""
        shard, avoid = self._shard, set[int]()
        while True:
            try:
                child = await launch(shard, prepared, self._means, avoid)
                self._exit = self._tasks.create_task(_exit_of(child))
                await self._become_ready(prepared.adapter)
            except ShardFailed as failure:
                if failure.cause != PORT_TAKEN or shard.port is None or avoid:
                    raise
                log.info("port is taken, trying another", shard=shard.name, port=shard.port)
                avoid.add(shard.port)
                await end_processes(shard, self._means, ask=True, limit=prepared.adapter.stop_limit)
            else:
                return

    async def _take_over(self) -> None:
        shard, adapter = self._shard, self._shard.adapter
        if shard.state == STOPPING:
            if shard.cause is not None:
                raise ShardFailed(shard.cause, shard.reason or "")
            raise StopWanted
        if shard.state != READY and adapter is not None:
            await self._become_ready(adapter)
        await self._serve()

    async def _become_ready(self, adapter: Adapter) -> None:
        shard, means = self._shard, self._means
        await self._or_stop(self._or_died(until_ready(shard, adapter, means)), self._ready_until())
        if shard.pid is not None:
            # Some engines change their command line while they start.
            await note_process(shard, means, shard.pid)
        shard.log.poll()
        lines = shard.log.start_up()
        shard.compute = adapter.read_compute(lines)
        if shard.spec.devices and (unused := adapter.unused_gpus(shard.compute, lines)):
            raise ShardFailed(*unused)
        shard.was_ready = True
        shard.move(READY)

    async def _serve(self) -> None:
        if self._exit is None:
            raise StopWanted
        adapter = self._shard.adapter
        pulse = None
        if adapter is not None and self._shard.spec.rank == 0:
            pulse = self._tasks.create_task(watch(self._shard, adapter, self._means))
        try:
            rc = await self._or_stop(_result(self._exit), None)
        finally:
            if pulse is not None:
                pulse.cancel()
        raise self._why_ended(rc)

    async def _or_stop(self, work: Coroutine[Any, Any, T], until: float | None) -> T:
        return await race(
            work,
            stop=self._shard.stop_wanted,
            clock=self._means.clock,
            until=until,
            late=self._late,
        )

    async def _or_died(self, work: Coroutine[Any, Any, None]) -> None:
        """Return when `work` does, unless the engine ends before or with it."""
        ended = self._exit
        if ended is None:
            raise StopWanted
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait({doing, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise self._why_ended(ended.result())
            doing.result()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    def _fetch_until(self) -> float:
        return self._began + (self._shard.spec.ready_timeout or FETCH_LIMIT)

    def _ready_until(self) -> float:
        """Return when a start-up has taken too long, in monotonic seconds.

        A profile's own limit counts from the start command, downloads included; the engine's
        default from the launch. One that is adopted is asked in any case: it may have become ready
        while no agent watched, and the wall clock, by which it was launched, may have been set.
        """
        shard, clock = self._shard, self._means.clock
        launched = shard.launched if shard.launched is not None else clock.now()
        since_launch = max(0.0, clock.now() - launched)
        limit = shard.spec.ready_timeout
        if limit is None:
            limit = shard.adapter.ready_limit if shard.adapter else STOP_LIMIT
        elif not shard.adopted:
            return self._began + limit
        least = ASKED_FOR if shard.adopted else 0.0
        return clock.monotonic() + max(least, limit - since_launch)

    def _late(self) -> ShardFailed:
        shard = self._shard
        limit = shard.spec.ready_timeout or (
            FETCH_LIMIT
            if shard.state == FETCHING or shard.adapter is None
            else shard.adapter.ready_limit
        )
        doing = shard.progress.words if shard.progress else "no answer from the engine"
        return ShardFailed(NOT_READY, f"not ready within {limit:g} s: {doing}")

    def _why_ended(self, rc: int | None) -> ShardFailed:
        shard = self._shard
        shard.log.finish()
        how = how_it_ended(rc, shard.pid)
        found = None
        if shard.adapter is not None:
            found = shard.adapter.cause_of(shard.log.last(_CAUSE_LINES), rc)
        if found is None:
            return ShardFailed(EXITED, f"the engine {how}")
        cause, words = found
        if cause == OUT_OF_MEMORY and (holders := self._means.who_holds(shard.spec.devices)):
            words = f"{words}; {holders}"
        return ShardFailed(cause, f"{words} (the engine {how})")

    async def _finish(self, failure: ShardFailed | None, *, ask: bool) -> None:
        shard, means = self._shard, self._means
        reason = failure.message if failure else shard.stop_reason or shard.reason
        cause = failure.cause if failure else None
        if shard.state != STOPPING and (failure is None or await anything_left(shard, means)):
            shard.move(STOPPING, reason, cause)
        limit = shard.adapter.stop_limit if shard.adapter else STOP_LIMIT
        await end_processes(shard, means, ask=ask, limit=limit)
        if self._exit is not None:
            await self._exit
        shard.log.finish()
        shard.move(FAILED if failure else STOPPED, reason, cause)
        self._file_away()

    def _file_away(self) -> None:
        """Keep a failure's log to be read; of what was stopped nothing stays."""
        shard, book = self._shard, self._means.book
        spec = shard.spec
        # Refused: what nothing describes may name itself as no shard of ours does.
        with suppress(OSError, Refused):
            if shard.state == STOPPED:
                book.remove(spec.replica, spec.rank)
            else:
                book.remove_key(spec.replica, spec.rank)
                save(shard, self._means)

    async def _until_gone(self) -> int | None:
        """Watch a process that is no child of this one; its exit status is not to be had."""
        process = self._shard.process
        while process is not None:
            seen = self._means.processes.look(process.pid)
            if seen is None or seen.started != process.started:
                break
            await self._means.clock.sleep(_LOOK)
        return None

    async def _tail(self) -> None:
        while True:
            self._shard.log.poll()
            await self._means.clock.sleep(_LOOK)


async def _exit_of(child: Child) -> int | None:
    return await child.wait()


async def _result(task: "asyncio.Task[int | None]") -> int | None:
    """Return what a task returns, without ending it when the wait is cut short."""
    return await asyncio.shield(task)


def how_it_ended(rc: int | None, pid: int | None) -> str:
    """Return an exit status in words."""
    if rc is None:
        return f"ended; the exit status of pid {pid} went to the agent that started it"
    if rc >= 0:
        return f"exited with code {rc}"
    try:
        name = signal.Signals(-rc).name
    except ValueError:
        name = f"number {-rc}"
    hint = ", as the kernel does when memory runs out" if rc == -signal.SIGKILL else ""
    return f"was ended by signal {name}{hint}"
