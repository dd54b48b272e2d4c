"""A simulated gateway: a machine and the gateways that come and go on it.

Parent and workers are the product's own; a worker's process is a life of its own, and the socket
pair between them passes the same frames.
"""

import asyncio
import contextvars
import itertools
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from llmgw.base.errors import NotFound
from llmgw.gateway import prefixes
from llmgw.gateway.cells import Cells
from llmgw.gateway.config import GatewayServiceConfig
from llmgw.gateway.frames import (
    FrameReader,
    FromWorker,
    ToWorker,
    decode_to_worker,
    framed,
)
from llmgw.gateway.front import Front
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.membership import Membership
from llmgw.gateway.places import Place
from llmgw.gateway.service import RECONNECT, SILENCE, GatewayService
from llmgw.gateway.worker import Report, Worker
from llmgw.link.dial import Dialer
from llmgw.link.enrol import Own
from llmgw.link.identity import GATEWAY, Identity, uri_of
from llmgw.link.tls import files_in
from llmgw.local.sim.clock import SimClock
from llmgw.local.sim.disk import Disk
from llmgw.local.sim.loop import Life, SimLoop
from llmgw.local.sim.network import Network, Plug
from tests.sim.node import CLUSTER

PORT = 7440
DRAIN = 4.0
"""Seconds for replies when a gateway is stopped in order."""
_FOREVER = 1e12


class Pipe:
    """One direction between a parent and its worker, as a socket pair carries it."""

    ready = True

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._reader = FrameReader()
        self._waits: list[bytes] = []
        self._to: contextvars.Context | None = None
        self._take: Callable[[bytes], object] = lambda _frame: None

    def hear(self, take: Callable[[bytes], object]) -> None:
        """Let whoever calls this hear what arrives."""
        self._to, self._take = contextvars.copy_context(), take
        for data in self._waits:
            self._loop.call_soon(self._arrive, data, context=self._to)
        self._waits.clear()

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message; it waits for whoever is to hear it."""
        data = framed(message)
        if self._to is None:
            self._waits.append(data)
        else:
            self._loop.call_soon(self._arrive, data, context=self._to)

    def close(self) -> None:
        """Let nothing more arrive."""
        self._take = lambda _frame: None

    def _arrive(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._take(frame)


_PIPES: dict[bytes, tuple[Pipe, Pipe]] = {}
"""Down and up, by what the worker's end of the socket pair was given to tell the parent's."""


class PipeChannel:
    """The parent's end of a socket pair, whose bytes go from life to life instead."""

    ready = True

    def __init__(self, on_frame: Callable[[bytes], None], *_: object) -> None:
        self._on_frame = on_frame
        self._down: Pipe | None = None
        self._up: Pipe | None = None

    async def open(self, end: socket.socket) -> None:
        """Take one end over."""
        with end:
            self._down, self._up = _PIPES.pop(end.recv(16))
        self._up.hear(self._on_frame)

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message."""
        if self._down is not None:
            self._down.send(message)

    def close(self) -> None:
        """Hear nothing more."""
        if self._up is not None:
            self._up.close()


class WorkerProcess:
    """What runs one worker: its pid, its end."""

    def __init__(self, network: Network, life: Life, pid: int, work: Any) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._network = network
        self._life = life
        self._over: asyncio.Future[int] = network.loop.create_future()
        self._task = network.loop.live(life, self._run(work))

    async def _run(self, work: Any) -> None:
        await work
        self._end(0)

    def kill(self) -> None:
        """End it as SIGKILL does."""
        if self.returncode is None:
            self._network.loop.kill(self._life)
            self._network.end(self._life)
            self._end(-9)

    def _end(self, rc: int) -> None:
        self.returncode = rc
        if not self._over.done():
            self._over.set_result(rc)

    async def wait(self) -> int:
        """Return its exit status when it has ended."""
        return await asyncio.shield(self._over)


class SimPlace(Place):
    """The product's worker place; only how a process is started is another."""

    gateway: "SimGateway"

    async def _spawn(self, theirs: socket.socket) -> Any:
        gateway = self.gateway
        pid, loop = next(gateway.pids), gateway.network.loop
        name = f"{gateway.name}/{pid}".encode()[-16:]
        down, up = _PIPES[name] = Pipe(loop), Pipe(loop)
        theirs.send(name)
        life = Life(f"worker {self.number} of {gateway.name}", gateway.host)
        return WorkerProcess(gateway.network, life, pid, self._work(down, up))

    async def _work(self, down: Pipe, up: Pipe) -> None:
        """Be the worker's process; see `llmgw.gateway.worker`."""
        gateway, report, cells = self.gateway, Report(), self._cells
        rng = random.Random(f"{gateway.rng.random()}")
        report.use(up)  # type: ignore[arg-type]
        front = Front(
            gateway.clock,
            rng,
            Cells.attach(cells, self.number),
            f"{rng.getrandbits(40):010x}",
            report.engine_down,
            report.held,
            prefixes.attach(cells),
            KeyCells.attach(cells, self.number),
        )
        worker = Worker(front, self._listener, report, gateway.clock, report.heard)
        down.hear(lambda frame: worker.take(decode_to_worker(frame)))
        await worker.run()


class SimGateway:
    """A machine that runs a gateway."""

    def __init__(
        self,
        network: Network,
        control_planes: tuple[str, ...],
        directory: Path,
        number: int,
        seed: str,
    ) -> None:
        self.name = f"gateway-{number}"
        self.host = f"127.2.{number}.1"
        self.network = network
        self.clock = SimClock(network.loop)
        self.disk = Disk(total=64 << 20)
        self.rng = random.Random(f"{seed}/{self.name}")
        self.pids = itertools.count(1 << 22)
        self.life: Life | None = None
        self.service: GatewayService | None = None
        self.starts = 0
        self.since = 0.0
        """When what runs was started, or was last cut short."""
        self._control_planes = control_planes
        self._state = directory / self.name
        self._state.mkdir()
        self._cells: int | None = None

    def start(self) -> None:
        """Start a gateway."""
        assert self.life is None, "it runs"
        self.starts += 1
        self.since = self.network.loop.time()
        self.life = Life(self.name, self.host)
        self._main = self.network.loop.live(self.life, self._run(self.life))

    def kill(self) -> None:
        """End it and its workers as SIGKILL does."""
        if self.life is None:
            return
        for place in self.service.places if self.service is not None else ():
            place.kill()
        self.network.loop.kill(self.life)
        self.network.end(self.life)
        self._gone()

    def stop(self) -> None:
        """Ask it to end, as SIGTERM does."""
        if self.service is not None:
            self.since = self.network.loop.time()
            self.service.stop()

    def kill_worker(self) -> bool:
        """Kill its worker; say whether there was one."""
        if self.service is None or not any(place.listening for place in self.service.places):
            return False
        self.since = self.network.loop.time()
        for place in self.service.places:
            place.kill()
        return True

    @property
    def connected(self) -> bool:
        """Say whether a control plane listens to it."""
        return self.service is not None and self.service._uplink.listened_to

    def _gone(self) -> None:
        self.since = self.network.loop.time()
        self.life = self.service = None
        if self._cells is not None:
            os.close(self._cells)
            self._cells = None

    async def _run(self, life: Life) -> None:
        self.service = self._assemble()
        try:
            await self.service.run()
        finally:
            if self.life is life:
                self._gone()

    def _assemble(self) -> GatewayService:
        identity = Identity(
            cluster=CLUSTER,
            role=GATEWAY,
            id=self.name,
            serial="",
            ends=self.clock.now() + _FOREVER,
        )
        membership = Membership(self._state, Own(files_in(self._state), identity, self.clock.now()))
        self._restore()
        rng = random.Random(f"{self.rng.random()}")
        slots: Any = [Plug((self.host, PORT))]
        service = GatewayService(
            GatewayServiceConfig(
                control_planes=self._control_planes,
                listen=f"{self.host}:{PORT}",
                url=f"http://{self.host}:{PORT}",
                drain=DRAIN,
                workers=1,
            ),
            self._state,
            membership,
            slots,
            self.clock,
            self.disk,
            rng,
        )
        self._cells = service.places[0]._cells
        for place in service.places:
            place.__class__ = SimPlace
            cast("SimPlace", place).gateway = self
        # In plaintext, as the agents here dial.
        service._dialer = Dialer(
            service._uplink.addresses,
            lambda: None,
            "gateway",
            clock=self.clock,
            rng=rng,
            backoff=RECONNECT,
            silence=SILENCE,
            claim=uri_of(CLUSTER, GATEWAY, self.name),
        )
        return service

    def _restore(self) -> None:
        """Lay the table where the product reads it: it looks there whom the file belongs to."""
        table = self._state / "table"
        try:
            data = self.disk.read(table)
        except NotFound:
            return
        table.write_bytes(data)
        table.chmod(0o600)
