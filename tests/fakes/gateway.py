"""A gateway's worker in the test's own process, serving a table value and nothing else."""

import asyncio
import hashlib
import random
import socket
from collections.abc import Sequence

import msgspec

from llmgw.base.clock import Clock, SystemClock
from llmgw.gateway.cells import Cells
from llmgw.gateway.frames import FromWorker, Identity, Waiting
from llmgw.gateway.front import Front
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.table import Table, default_config, endpoints_of, whole
from llmgw.gateway.worker import Worker
from llmgw.model.gateway import Endpoint, GatewayConfig, Route
from llmgw.model.keys import Key

KEY = "llmgw_k1_" + "s" * 43
MODEL = "m"


def key_record(text: str = KEY, **more: object) -> Key:
    """Return the record of a key's text."""
    key_id = text.split("_")[1]
    fields = {"name": key_id, "created": 1.0, **more}
    return Key(id=key_id, sha256=hashlib.sha256(text.encode()).hexdigest(), **fields)  # type: ignore[arg-type]


def endpoint(port: int, replica: str, **more: object) -> Endpoint:
    """Return an endpoint on loopback, with a key of its own."""
    fields = {"host": "127.0.0.1", "key": f"engine-key-of-{replica}", **more}
    return Endpoint(replica=replica, port=port, **fields)  # type: ignore[arg-type]


def route(ports: Sequence[int], model: str = MODEL, **more: object) -> Route:
    """Return a route to engines on those ports."""
    endpoints = tuple(endpoint(port, f"{model}-{number}") for number, port in enumerate(ports))
    return Route(model=model, endpoints=endpoints, wanted=len(ports), **more)  # type: ignore[arg-type]


def table(*routes: Route, keys: Sequence[Key] = (), **settings: object) -> Table:
    """Return a table with a key for everything."""
    config = msgspec.structs.replace(default_config(), **settings)
    ring = {key.id: key for key in (key_record(), *keys)}
    return Table(routes={one.model: one for one in routes}, keys=ring, config=config)


class GatewayHere:
    """A running worker: change its table, ask it, stop it."""

    def __init__(
        self,
        clock: Clock | None = None,
        cells: Cells | None = None,
        keys: KeyCells | None = None,
        quotas: Quotas | None = None,
        connections: int | None = None,
        tls: bytes | None = None,
    ) -> None:
        self.reports: list[FromWorker] = []
        self.down: list[tuple[str, str]] = []
        self.clock = clock or SystemClock()
        self.keys: dict[str, Key] = {}
        self.key_cells = keys or KeyCells.private()
        self.quotas = quotas or Quotas(self.key_cells, "gw", self.clock)
        self.front = Front(
            self.clock,
            random.Random(1),
            cells or Cells.private(),
            "test",
            lambda replica, words: self.down.append((replica, words)),
            lambda counts: self.reports.append(Waiting(counts=counts)),
            keys=self.key_cells,
            connections=connections,
        )
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self.worker = Worker(self.front, self._listener, self.reports.append, SystemClock())
        if tls is not None:
            self.worker.take(Identity(certificate=tls, key=tls))
        self._columns: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def show(self, state: Table, *, current: bool = True, received: bool = True) -> None:
        """Give it a whole table."""
        for place in endpoints_of(state.routes.values()):
            self._columns.setdefault(place.replica, len(self._columns))
        self.keys = state.keys
        self.quotas.keep(state.keys)
        self.worker.take(
            msgspec.structs.replace(
                whole(state),
                current=current,
                received=received,
                columns=dict(self._columns),
                key_columns=self.quotas.columns(tuple(state.keys.values())),
            )
        )

    async def start(self, state: Table) -> "GatewayHere":
        self._task = asyncio.ensure_future(self.worker.run())
        self.show(state)
        await asyncio.sleep(0)
        return self

    async def ended(self) -> None:
        """Wait until it has drained."""
        if self._task is not None:
            await asyncio.wait_for(asyncio.shield(self._task), 10.0)

    async def stop(self) -> None:
        self.worker.drain(0.0)
        if self._task is not None:
            await self._task

    @property
    def config(self) -> GatewayConfig:
        return default_config()
