"""A worker: the process that users' connections are served by.

It has a listening socket, one end of a socket pair and the cells from its parent, and speaks to
nobody else but clients and engines. Without its parent it ends at once, streams and all: a worker
that nobody accounts for, and that holds the port against the next gateway, helps nobody.
"""

import argparse
import asyncio
import ctypes
import gc
import os
import random
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress

import uvloop

from llmgw.base.clock import Clock, SystemClock
from llmgw.base.log import get, setup
from llmgw.gateway.cells import Cells
from llmgw.gateway.channel import Channel
from llmgw.gateway.door import most_connections
from llmgw.gateway.frames import (
    Down,
    Drain,
    Figures,
    Forget,
    Forgot,
    FromWorker,
    Identity,
    Inquiry,
    Listening,
    Resume,
    Standing,
    TableFrame,
    Took,
    ToWorker,
    Waiting,
    decode_to_worker,
)
from llmgw.gateway.front import Front
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.live import answer
from llmgw.gateway.memory import memory_of_machine
from llmgw.gateway.prefixes import attach
from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.bodies import Bodies, share_of
from llmgw.gateway.proxy.deadlines import PERIOD
from llmgw.gateway.tls import HANDSHAKE, fill, new_context
from llmgw.model.gateway import EndpointDown

log = get(__name__)

BACKLOG = 4096
LAST_WORDS = 1.0
"""Seconds for the ends of replies that were cut to reach their clients."""
_PR_SET_PDEATHSIG = 1


class Worker:
    """Serves one listening socket by the table that `take` is given.

    Args:
        front: decides and serves.
        listener: the socket that the parent bound; it listens already.
        report: told what the parent has to know; must not block.
        clock: paces the reports.
        heard: says whether the parent takes what it is told; what it does not is told later.
    """

    def __init__(
        self,
        front: Front,
        listener: socket.socket,
        report: Callable[[FromWorker], None],
        clock: Clock,
        heard: Callable[[], bool] = lambda: True,
    ) -> None:
        self._front = front
        self._listener = listener
        self._report = report
        self._clock = clock
        self._heard = heard
        self._table = asyncio.Event()
        self._tls: ssl.SSLContext | None = None
        self._drained = asyncio.Event()
        self._ends = float("inf")
        self._stood = Standing()
        """How the parent was told last that replicas are."""

    def take(self, message: ToWorker) -> None:
        """Act on what the parent says."""
        match message:
            case Resume():
                self._front.books.resume(message.totals, message.traffic)
            case Identity():
                self._tls = self._tls or new_context()
                fill(self._tls, message)
            case TableFrame():
                self._front.take(message)
                self._table.set()
                self._report(Took(number=message.number))
            case Figures(told=told):
                self._front.take_loads(told)
            case Inquiry():
                self._report(answer(self._front, message))
            case Forget(totals=totals):
                forgotten = self._front.books.forget(totals)
                if forgotten:
                    self._report(Forgot(totals=forgotten))
            case Drain(seconds=seconds, gently=gently):
                self.drain(seconds, gently=gently)

    def drain(self, seconds: float, *, gently: bool = False) -> None:
        """Stop accepting and end within so many seconds; a later call can only hurry.

        Args:
            seconds: until connections are cut.
            gently: connections that are idle are served once more.
        """
        self._ends = min(self._ends, self._clock.monotonic() + seconds)
        self._front.leaving = True
        if not gently:
            self._front.begin_draining()
        self._drained.set()

    async def run(self) -> None:
        """Serve until drained. Listens only once a table is there."""
        ticking = asyncio.ensure_future(self._tick())
        try:
            await self._serve()
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
            await self._front.close()
            self.tell()

    def tell(self) -> None:
        """Report what changed in the books, and of how replicas are."""
        if not self._heard():
            return
        counted = self._front.books.take_changes()
        if counted is not None:
            self._report(counted)
        standing = self._front.standing
        if standing != self._stood:
            self._stood = standing
            self._report(standing)

    async def _serve(self) -> None:
        await self._table.wait()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._front.connection,
            sock=self._listener,
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else HANDSHAKE,
        )
        self._report(Listening(pid=os.getpid()))
        await self._drained.wait()
        # Not `wait_closed`: that would wait for the connections, and these have a limit.
        server.close()
        await self._clock.sleep(0.0)  # those that were accepted in this turn come in
        await self._until_empty()
        for connection in tuple(self._front.connections):
            connection.cut()
        self._ends = self._clock.monotonic() + LAST_WORDS
        await self._until_empty()

    async def _until_empty(self) -> None:
        while not self._front.door.is_empty and self._clock.monotonic() < self._ends:
            await self._clock.sleep(0.05)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(PERIOD)
            # The tick outlives a fault: without it no deadline is kept and nothing is counted.
            for part in (self._front.tidy, self.tell):
                try:
                    part()
                except Exception as error:  # noqa: BLE001 (the next tick may succeed)
                    faults.note(error, "tidy up")


class Report:
    """Where a worker's reports go: its channel to the parent."""

    def __init__(self) -> None:
        self._channel: Channel | None = None

    def use(self, channel: Channel) -> None:
        """Send them there from now on."""
        self._channel = channel

    def __call__(self, message: FromWorker) -> None:
        """Send a report."""
        if self._channel is not None:
            self._channel.send(message)

    def heard(self) -> bool:
        """Say whether the parent takes what it is told."""
        return self._channel is not None and self._channel.ready

    def engine_down(self, replica: str, words: str) -> None:
        """Tell that an engine could not be reached; dropped while the parent is slow."""
        if self.heard():
            self(Down(endpoint=EndpointDown(replica=replica, words=words)))

    def held(self, counts: dict[str, int]) -> None:
        """Tell how many requests wait for each model."""
        self(Waiting(counts=counts))


def main() -> None:
    """Run the worker that the parent's arguments describe, and leave."""
    parser = argparse.ArgumentParser(description="One worker of `llmgw gateway`, which starts it.")
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--channel-fd", type=int, required=True)
    parser.add_argument("--cells-fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--log-level", default="info")
    options = parser.parse_args()
    _die_with(options.parent)
    setup(f"gateway-worker-{options.slot}", level=options.log_level)
    # Both are the parent's, which drains us; a worker that ended by itself would let the
    # connections in its socket wait for the next one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    uvloop.run(_run(options))
    # No clean-up is worth a wait here: everything was told, and nothing else is ours.
    sys.stderr.flush()
    os._exit(0)


async def _run(options: argparse.Namespace) -> None:
    clock = SystemClock()
    rng = random.Random()
    report = Report()
    prefix = f"{rng.getrandbits(40):010x}"
    cells = Cells.attach(options.cells_fd, options.slot)
    # Each slot has two rows: one worker takes the place of the other.
    bodies = Bodies(share_of(memory_of_machine(), cells.rows // 2))
    front = Front(
        clock,
        rng,
        cells,
        prefix,
        report.engine_down,
        report.held,
        attach(options.cells_fd),
        KeyCells.attach(options.cells_fd, options.slot),
        most_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        bodies,
    )
    listener = socket.socket(fileno=options.listen_fd)
    worker = Worker(front, listener, report, clock, report.heard)
    channel = await listen_to_parent(worker, report, socket.socket(fileno=options.channel_fd))
    gc.collect()
    gc.freeze()
    await worker.run()
    channel.close()
    await clock.sleep(0)


async def listen_to_parent(worker: Worker, report: Report, end: socket.socket) -> Channel:
    """Return the channel to the parent, over which a worker hears and reports from now on."""
    channel = Channel(lambda frame: worker.take(decode_to_worker(frame)), _orphaned)
    # Before it opens: the parent's first table may wait in the socket already, and that it was
    # taken would be reported to nobody.
    report.use(channel)
    await channel.open(end)
    return channel


def _orphaned() -> None:
    """End at once: the parent is gone."""
    os._exit(1)


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent, even when this one hangs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
