"""The worker places of a gateway: a socket each, and a process that is replaced when it dies."""

import asyncio
import os
import random
import socket
import sys
from collections.abc import Callable, Iterable

import msgspec

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.gateway.channel import Channel
from llmgw.gateway.frames import (
    Counted,
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
    Told,
    Took,
    Waiting,
    decode_from_worker,
)
from llmgw.model.gateway import ModelTraffic
from llmgw.model.keys import UsageTotals

log = get(__name__)

BACKOFF = Backoff(first=0.2, most=10.0)
LONG_LIVED = 30.0
"""Seconds that a worker has to live for its end not to count as one of a series."""
END_GRACE = 5.0
"""Seconds beyond its drain after which a worker is killed."""
_HASH_KEY = str(random.SystemRandom().getrandbits(32))
"""Of all workers: what one of them finds out about a prompt's hash, the others can use."""
_PASSED_ON = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PATH",
    "PYTHONPATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "VIRTUAL_ENV",
)


class Place:
    """One worker place.

    Args:
        number: from 0; the row of the cells, and the worker's number in reports.
        listener: handed down to each worker of this place, and never closed while it may be needed.
        cells: descriptor of the shared counts.
        log_level: the workers'.
        table: returns the whole table for a worker that starts; None: it is to wait.
        identity: returns what TLS is spoken with; None: users connect without it.
        on_message: told what a worker says.
        on_end: called when a worker has ended.
        clock: paces restarts.
        rng: spreads them.
    """

    def __init__(
        self,
        number: int,
        listener: socket.socket,
        cells: int,
        *,
        log_level: str,
        table: Callable[[], TableFrame | None],
        identity: Callable[[], Identity | None] = lambda: None,
        on_message: Callable[["Place", FromWorker], None],
        on_end: Callable[["Place"], None],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.number = number
        self.pid: int | None = None
        """The worker's process; None while there is none."""
        self.began: float | None = None
        """When it began, in seconds since the epoch; None while there is none."""
        self.listening = False
        self.active = False
        """It has a worker, or is about to have one."""
        self.taken: int | None = None
        """The number of the table that the worker serves by; None while there is no worker."""
        self.restarts = 0
        self.totals: dict[tuple[str, str], UsageTotals] = {}
        self.traffic: dict[str, ModelTraffic] = {}
        self.waiting: dict[str, int] = {}
        """How many requests wait at the worker for each model that nothing serves."""
        self.standing = Standing()
        """How replicas are as the worker sees them."""
        self._listener = listener
        self._cells = cells
        self._log_level = log_level
        self._table = table
        self._identity = identity
        self._on_message = on_message
        self._on_end = on_end
        self._clock = clock
        self._rng = rng
        self._channel: Channel | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._drained = asyncio.Event()

    async def run(self) -> None:
        """Keep a worker running until drained."""
        self.active = True
        try:
            await self._keep_running()
        finally:
            self.active = False

    def renew(self) -> None:
        """Let `run` be called again after `drain`."""
        self._drained = asyncio.Event()

    async def _keep_running(self) -> None:
        failures = 0
        while not self._drained.is_set():
            began = self._clock.monotonic()
            try:
                rc = await self._run_worker()
            except OSError as error:
                log.warning("a worker could not be started", worker=self.number, why=str(error))
                rc = -1
            if self._drained.is_set():
                return
            lived = self._clock.monotonic() - began
            failures = 0 if lived > LONG_LIVED else failures + 1
            # The first replacement comes at once: connections wait in the socket.
            wait = BACKOFF.delay(failures - 1, self._rng) if failures > 1 else 0.0
            self.restarts += 1
            log.warning("a worker ended and is replaced", worker=self.number, rc=rc, again_in=wait)
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        """Wait before the next worker, but not when there is to be none."""
        drained = asyncio.ensure_future(self._drained.wait())
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        await asyncio.wait({drained, sleep}, return_when=asyncio.FIRST_COMPLETED)
        for waiter in (drained, sleep):
            waiter.cancel()
        await asyncio.gather(drained, sleep, return_exceptions=True)

    def send(self, frame: TableFrame | Identity | Figures | Inquiry | Forget) -> None:
        """Tell the worker what changed; one that is slow gets all of it when it is not."""
        if self._channel is not None and self._channel.ready:
            self._channel.send(frame)

    async def drain(self, seconds: float, *, gently: bool = False) -> None:
        """Let the worker finish what runs within so many seconds; return when it is gone.

        Args:
            seconds: until what still runs is ended.
            gently: idle connections get one more reply each.
        """
        self._drained.set()
        process = self._process
        if process is None:
            return
        if self._channel is not None:
            self._channel.send(Drain(seconds=seconds, gently=gently))
        try:
            async with asyncio.timeout(seconds + END_GRACE):
                await process.wait()
        except TimeoutError:
            log.warning("a worker did not end and is killed", worker=self.number)
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End the worker at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _run_worker(self) -> int:
        ours, theirs = socket.socketpair()
        try:
            process = await self._spawn(theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process = process
        self.pid, self.began = process.pid, self._clock.now()
        if self._drained.is_set():
            self.kill()  # told to end while it was being started
        channel = Channel(self._take, self.kill, self.catch_up)
        try:
            await channel.open(ours)
            channel.send(
                Resume(totals=tuple(self.totals.values()), traffic=tuple(self.traffic.values()))
            )
            self._channel = channel
            self.taken = 0
            self.catch_up()
            return await process.wait()
        finally:
            self.kill()
            self.pid = self.began = self.taken = self._channel = self._process = None
            self.listening = False
            self.waiting = {}
            self.standing = Standing()
            self.traffic = {
                name: msgspec.structs.replace(seen, in_flight=0)
                for name, seen in self.traffic.items()
            }
            channel.close()
            self._on_end(self)

    async def _spawn(self, theirs: socket.socket) -> asyncio.subprocess.Process:
        fds = (self._listener.fileno(), theirs.fileno(), self._cells)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # no module of the working directory is imported
            "-m",
            "llmgw.gateway.worker",
            *("--slot", str(self.number), "--parent", str(os.getpid())),
            *("--listen-fd", str(fds[0]), "--channel-fd", str(fds[1]), "--cells-fd", str(fds[2])),
            *("--log-level", self._log_level),
            pass_fds=fds,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
        )

    def _take(self, frame: bytes) -> None:
        message = decode_from_worker(frame)
        match message:
            case Counted(totals=totals, traffic=traffic):
                self.totals.update({(row.key, row.model): row for row in totals})
                self.traffic.update({row.model: row for row in traffic})
            case Listening():
                self.listening = True
            case Took(number=number):
                self.taken = number
            case Waiting(counts=counts):
                self.waiting = counts
            case Standing():
                self.standing = message
            case Down() | Told() | Forgot():
                pass
        self._on_message(self, message)

    def catch_up(self) -> None:
        """Tell the worker everything anew."""
        channel, identity, table = self._channel, self._identity(), self._table()
        if channel is not None:
            if identity is not None:
                channel.send(identity)
            if table is not None:
                channel.send(table)


def send_to_all(places: Iterable[Place], frame: TableFrame | Identity | Figures) -> None:
    """Tell every worker what changed."""
    for place in places:
        place.send(frame)


def _environment() -> dict[str, str]:
    """Return what a worker needs of the environment; whatever secrets are in it stay here."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "PYTHONHASHSEED": _HASH_KEY}
