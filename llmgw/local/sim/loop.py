"""An event loop whose time is virtual: it never sleeps, it moves its clock to the next timer.

Every run with the same seed takes the same steps in the same order: timers of one moment run in the
order in which they were set, sets of tasks are iterated over in the order in which the tasks were
made, and what would go to a thread is done inline.

Each step belongs to a *life*: one run of one program on one simulated machine. A life can be frozen
(as SIGSTOP does) and killed (as SIGKILL does): its steps wait, or never run, and no `finally` block
of it cleans up. That is why the loop is written out here and not derived from asyncio's.
"""

import asyncio
import contextvars
import heapq
import itertools
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGIN: Final = 1000.0
"""Where the clock begins: no simulated second is zero."""

STEPS_AT_ONCE: Final = 300_000
"""Steps at one moment after which a run counts as one that never moves on."""

_DUMPED: Final = 40


class Stuck(Exception):
    """A run that can't go on: the message has the tasks that are left and where they wait."""


class Life:
    """One run of one program, from its start to its end."""

    __slots__ = ("frozen", "host", "name", "over", "thawed", "waiting")

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        """The address of its machine."""
        self.over = False
        self.frozen = False
        self.thawed: float | None = None
        """When it last went on after it was frozen."""
        self.waiting: list[Step] = []
        """Steps that came while it was frozen."""


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)
"""Whose step runs; None: the simulator's own."""


class Step:
    """One call that the loop makes, at once or when its time has come."""

    __slots__ = ("args", "at", "callback", "context", "off")

    def __init__(
        self,
        at: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self.at = at
        self.callback = callback
        self.args = args
        self.context = context
        self.off = False

    def cancel(self) -> None:
        """Leave it out."""
        self.off = True
        self.callback, self.args = _nothing, ()

    def cancelled(self) -> bool:
        """Say whether it is left out."""
        return self.off

    def when(self) -> float:
        """Return when it is due, on the loop's clock."""
        return self.at


class SimTask(asyncio.Task[T]):
    """A task whose hash is its number: sets of tasks are in the same order in every run."""

    __slots__ = ("_number", "life")

    def __init__(
        self,
        number: int,
        coro: Any,
        *,
        loop: "SimLoop",
        name: str,
        context: contextvars.Context | None,
    ) -> None:
        self._number = number
        self.life: Life | None = LIFE.get() if context is None else context.get(LIFE)
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.BaseEventLoop):
    """The loop. `network` makes the connections; see `llmgw.local.sim.network`.

    Attributes:
        steps: steps that were made.
        faults: what nobody caught: contexts of asyncio's exception handler.
    """

    def __init__(self) -> None:
        self._running = False
        super().__init__()
        self.steps = 0
        self.faults: list[dict[str, Any]] = []
        self.connect: Callable[..., Awaitable[tuple[Any, Any]]] | None = None
        self.listen: Callable[..., asyncio.AbstractServer] | None = None
        self._now = BEGIN
        self._next: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._order = itertools.count()
        self._task_numbers = itertools.count(1)
        self._left: list[asyncio.Task[Any]] = []
        """Tasks of lives that were killed: collected, their coroutines would run to clean up."""

    # Running.

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until a future or coroutine is done; return its result.

        Raises:
            Stuck: nothing is left to do, or the clock stands still.
        """
        main = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        asyncio.events._set_running_loop(self)  # noqa: SLF001 -- what every loop has to call
        self._running = True
        try:
            while not main.done():
                self._turn()
        finally:
            self._running = False
            asyncio.events._set_running_loop(None)  # noqa: SLF001
        result: T = main.result()
        return result

    def _turn(self) -> None:
        """Make every step of this moment; move the clock first when there is none."""
        ready = self._next
        if not ready:
            self._take_due()
        most = self.steps + STEPS_AT_ONCE
        take = ready.popleft
        while ready:
            step = take()
            if step.off:
                continue
            context = step.context
            life = context.get(LIFE)
            if life is not None and (life.over or life.frozen):
                if not life.over:
                    life.waiting.append(step)
                continue
            self.steps += 1
            try:
                context.run(step.callback, *step.args)
            except Exception as error:  # noqa: BLE001 -- as asyncio's own loop: told, not raised
                self.call_exception_handler({"message": "a step failed", "exception": error})
            if self.steps > most:
                raise Stuck(f"{STEPS_AT_ONCE} steps at {self._now:.3f} s\n{self.dump()}")

    def _take_due(self) -> None:
        """Move the clock to the next timer, and make those ready that are due then."""
        ready, timers = self._next, self._timers
        while timers and timers[0][2].off:
            heapq.heappop(timers)
        if not timers:
            raise Stuck(f"nothing is ready and no timer is set\n{self.dump()}")
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            step = heapq.heappop(timers)[2]
            if not step.off:
                ready.append(step)

    # Lives.

    def freeze(self, life: Life) -> None:
        """Let none of its steps run until `thaw`."""
        life.frozen = True

    def thaw(self, life: Life) -> None:
        """Let a frozen life go on with everything that came meanwhile."""
        life.frozen = False
        life.thawed = self._now
        self._next.extend(life.waiting)
        life.waiting = []

    def kill(self, life: Life) -> None:
        """End a life where it stands: nothing of it runs any more."""
        life.over = True
        life.waiting = []
        self._left += self.tasks(life)

    def tasks(self, life: Life | None = None) -> "list[SimTask[Any]]":
        """Return the tasks that are not done, of one life or all, in the order of their making."""
        found = (task for task in asyncio.all_tasks(self) if isinstance(task, SimTask))
        return sorted((one for one in found if life in {None, one.life}), key=hash)

    def live(self, life: Life, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a life with its first task; when that fails it is among `faults`."""
        task = self.live_more(life, work)
        task.add_done_callback(self._ended, context=contextvars.Context())
        return task

    def live_more(self, life: Life, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Let a life do something more that somebody outside waits for."""
        context = contextvars.Context()
        context.run(LIFE.set, life)
        return self.create_task(work, name=life.name, context=context)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        """Keep what ended a life by itself."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            what = f"{task.get_name()} ended by itself"
            self.faults.append({"message": what, "exception": error})

    # What asyncio asks of a loop.

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Step:
        """Make a call in this moment, after those that are ready already."""
        context = copy_context() if context is None else context
        step = Step(self._now, callback, args, context)
        self._next.append(step)
        return step

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Step:
        """Make a call at a time."""
        context = copy_context() if context is None else context
        step = Step(when, callback, args, context)
        heapq.heappush(self._timers, (when, next(self._order), step))
        return step

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Step:
        """Make a call after some seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[Any]":
        """Start a task."""
        number = next(self._task_numbers)
        named = f"task {number}" if name is None else str(name)
        return SimTask(number, coro, loop=self, name=named, context=context)

    def run_in_executor(
        self,
        executor: Any,
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> "asyncio.Future[T]":
        """Do inline what would go to a thread."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- handed to whoever waits
            future.set_exception(error)
        return future

    async def create_connection(self, protocol_factory: Any, *args: Any, **kwargs: Any) -> Any:
        """Connect over the simulated network."""
        assert self.connect is not None, "no network"  # noqa: S101
        return await self.connect(protocol_factory, *args, **kwargs)

    async def create_server(self, protocol_factory: Any, *args: Any, **kwargs: Any) -> Any:
        """Listen in the simulated network."""
        assert self.listen is not None, "no network"  # noqa: S101
        return self.listen(protocol_factory, *args, **kwargs)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Return an address as it is: there is no name service."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody caught; what is left of a life that was killed is none of it."""
        life = LIFE.get()
        if (life is None or not life.over) and not context.get("message", "").startswith(
            "Task was destroyed"
        ):
            self.faults.append(context)

    get_debug = staticmethod(bool)  # pyright: ignore[reportAssignmentType]
    """False, without a frame for it: asyncio asks for each future, and its checks cost too much."""

    def is_running(self) -> bool:
        """Say whether it runs."""
        return self._running

    def close(self) -> None:
        """Let everything go that is left."""
        super().close()
        self.drop()
        self._left.clear()
        self.connect = self.listen = None

    def drop(self) -> bool:
        """Leave out every step that was to be made; say whether there was one."""
        there = bool(self._next or self._timers)
        self._next.clear()
        self._timers.clear()
        return there

    def _timer_handle_cancelled(self, handle: object) -> None:
        pass

    def dump(self) -> str:
        """Return the tasks that are not done and where each waits, some lines each."""
        tasks = [task for task in self.tasks() if task.life is None or not task.life.over]
        lines = [f"{len(tasks)} tasks at {self._now:.3f} s, {self.steps} steps:"]
        for task in tasks[:_DUMPED]:
            where = list(_where(task.get_coro()))
            name = f"{task.life.name} " if task.life is not None else ""
            lines.append(f"  {name}{task.get_name()}: {' > '.join(where) or 'not begun'}")
        return "\n".join(lines)


def _where(waiting: Any) -> Iterator[str]:
    """Yield where a coroutine waits, and what it waits for in turn."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            return
        yield f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _nothing() -> None:
    """Stand for a call that is left out."""
