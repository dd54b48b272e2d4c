"""Helper processes of a simulated machine: the product's own code, run in a life of its own.

What answers is what answers in the real helper (`fetch_side.fetch`, `disk_side.answer`), on the
simulated disk and network. Weights lie in a real directory, as large as a few thousand bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable
from llmgw.local.sim.http import SimHttp
from llmgw.local.sim.loop import LIFE, Life, SimLoop
from llmgw.local.sim.machine import Machine
from llmgw.model.catalog import UrlSource
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw_agent.engines.install_side import Seen
from llmgw_agent.host import disk_side
from llmgw_agent.host.disk import Space, SpaceOf
from llmgw_agent.host.tree import Tree, TreeOf, read_live
from llmgw_agent.parse.cards import Card, CardsSeen
from llmgw_agent.weights.fetch_side import FetchOrder, fetch
from llmgw_agent.weights.url_fetch import UrlFetch

GIB = 1 << 30
CARD = "NVIDIA H100 80GB HBM3"

Tell = Callable[[Progress], None]
Answer = Callable[[Record, Tell], Awaitable[Record]]


class Helpers:
    """Makes the helpers of one machine; they end with the agent that asked them."""

    def __init__(self, loop: SimLoop, machine: Machine, cards: int, http: SimHttp) -> None:
        self._loop = loop
        self._machine = machine
        self._cards = cards
        self._http = http
        self._running: set[asyncio.Task[Any]] = set()
        self._answers: dict[str, Answer] = {
            "llmgw_agent.host.disk_side": self._disk,
            "llmgw_agent.weights.fetch_side": self._fetch,
            "llmgw_agent.engines.install_side": self._installs,
            "llmgw_agent.probe.nvml_side": self._nvml,
            "llmgw_agent.host.tree_side": self._tree,
        }

    def new(self, module: str, grace: float) -> Callable[[], "InlineHelper"]:
        """Return what makes a helper of a module."""
        return lambda: InlineHelper(self._loop, module, self._answers[module], self._running)

    def end(self) -> None:
        """End them all: who asked them was killed, and their standard input with it."""
        for task in tuple(self._running):
            task.cancel()

    async def _disk(self, request: Record, tell: Tell) -> Record:
        if isinstance(request, SpaceOf):
            space = self._machine.disk.space(Path(request.path))
            assert space is not None
            return Space(real="/", total_bytes=space.total, free_bytes=space.free)
        return disk_side.answer(msgspec.json.encode(request))

    async def _tree(self, request: Record, tell: Tell) -> Record:
        assert isinstance(request, TreeOf)
        disk = self._machine.disk
        return Tree(files=dict(read_live(disk, Path(request.root), request.wanted, request.most)))

    async def _fetch(self, request: Record, tell: Tell) -> Record:
        assert isinstance(request, FetchOrder)
        assert isinstance(request.source, UrlSource)
        clock = self._machine.clock
        fetcher = UrlFetch(
            request.source,
            self._http,
            self._machine.disk,
            clock,
            resolve=_resolve,
            allow_http=request.allow_http,
        )
        return await fetch(request, fetcher, clock, tell)

    async def _installs(self, request: Record, tell: Tell) -> Record:
        return Seen(running=(), broken=())

    async def _nvml(self, request: Record, tell: Tell) -> Record:
        if not self._cards:
            raise NotFound("no NVML")
        cards = tuple(card(self._machine.name, index) for index in range(self._cards))
        return CardsSeen(cards=cards, driver="550.54.15", cuda="12.4")


def card(node: str, index: int) -> Card:
    """Return a card of a machine."""
    return Card(
        index=index,
        uuid=f"GPU-{node}-{index}",
        name=CARD,
        memory_total=80 * GIB,
        memory_used=0,
        processes=(),
    )


async def _resolve(host: str) -> tuple[str, ...]:
    return ("93.184.216.34",)


class InlineHelper:
    """A helper process: one request at a time, killed when it says nothing for too long."""

    def __init__(
        self, loop: SimLoop, module: str, answer: Answer, running: set[asyncio.Task[Any]]
    ) -> None:
        self._loop = loop
        self._module = module.rpartition(".")[2]
        self._answer = answer
        self._running = running
        self._one_at_a_time = asyncio.Lock()
        self._working: asyncio.Task[Any] | None = None

    async def ask(
        self,
        request: Record,
        answer: type[Any],
        *,
        silence: float,
        progress: Tell | None = None,
    ) -> Any:
        """Return the answer to a request; see `llmgw_agent.host.helper.Helper`."""
        async with self._one_at_a_time:
            asker = LIFE.get()
            host = "" if asker is None else asker.host
            work = self._answer(request, progress or (lambda _: None))
            task = self._loop.live(Life(f"{self._module} of {host}", host), _run(work))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._working = task
            try:
                done, _ = await asyncio.wait({task}, timeout=3 * silence)
            finally:
                if not task.done():
                    task.cancel()
            if not done:
                raise TimedOut(f"{self._module}: no answer within {silence:g} s")
            return _result(task, self._module)

    async def close(self) -> None:
        """End the process."""
        if self._working is not None and not self._working.done():
            self._working.cancel()


async def _run(work: Awaitable[Record]) -> Record | LlmgwError:
    """Return what a helper says: its answer, or its error as it travels."""
    try:
        return await work
    except LlmgwError as error:
        return error
    except OSError as error:
        return LlmgwError(f"{error.filename}: {error.strerror}")


def _result(task: "asyncio.Task[Record | LlmgwError]", module: str) -> Record:
    if task.cancelled():
        raise Unreachable(f"{module}: the helper process ended without an answer")
    said = task.result()
    if isinstance(said, LlmgwError):
        raise said
    return said
