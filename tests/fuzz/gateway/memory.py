"""A gateway between a client and an engine that are in memory."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import h11

from llmgw.base.clock import SystemClock
from llmgw.gateway.cells import Cells
from llmgw.gateway.front import Front
from llmgw.gateway.proxy.client import ClientConnection, Running
from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.table import Table, whole

ANSWER = b'{"usage":{"prompt_tokens":1,"completion_tokens":1}}'


class Wire(asyncio.Transport):
    """A transport of which what is written goes to a function, as long as it is open."""

    def __init__(self, protocol: asyncio.Protocol, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._protocol = protocol
        self._take = take
        self.closed = False
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:
            self._take(bytes(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close

    def deliver(self, data: bytes) -> None:
        """Hand the protocol what the other end sent."""
        if not self.closed:
            self._protocol.data_received(data)


class MemoryEngine:
    """The engine's end of one connection. h11 reads what it is sent, and raises at the first fault.

    It answers each request whole.
    """

    def __init__(self, connection: EngineConnection) -> None:
        self._reads = h11.Connection(h11.SERVER)
        self._wire = Wire(connection, self._take)

    def _take(self, data: bytes) -> None:
        self._reads.receive_data(data)
        while (event := self._reads.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.EndOfMessage):
                self._answer()

    def _answer(self) -> None:
        head = h11.Response(
            status_code=200,
            headers=[("content-type", "application/json"), ("content-length", str(len(ANSWER)))],
        )
        said = [h11.Data(data=ANSWER), h11.EndOfMessage()]
        written = b"".join(self._reads.send(event) or b"" for event in (head, *said))
        self._reads.start_next_cycle()
        asyncio.get_running_loop().call_soon(self._wire.deliver, written)


class MemoryGateway(Front):
    """A worker's front whose engines are in memory; what it takes for requests is kept."""

    def __init__(self, state: Table) -> None:
        self.cells = Cells.private()
        super().__init__(
            SystemClock(), random.Random(1), self.cells, "fuzz", self._no_engine, lambda _: None
        )
        self.taken: list[Request] = []
        replicas = [one.replica for way in state.routes.values() for one in way.endpoints]
        columns = {replica: column for column, replica in enumerate(replicas)}
        frame = whole(state)
        frame = frame.__class__(
            **{name: getattr(frame, name) for name in frame.__struct_fields__}
            | {"columns": columns, "received": True, "current": True}
        )
        self.take(frame)

    def serve(self, connection: ClientConnection, request: Request) -> Running | None:  # type: ignore[override]
        seen = Request()
        seen.method, seen.target, seen.body = request.method, request.target, request.body
        seen.refusal = request.refusal
        self.taken.append(seen)
        return super().serve(connection, request)

    def connect(self, engine: Engine, timeout: float, done: Any) -> Callable[[], object]:
        connection = EngineConnection()
        MemoryEngine(connection)
        return asyncio.get_running_loop().call_soon(done, connection, "").cancel

    def _no_engine(self, replica: str, words: str) -> None:
        raise AssertionError(f"{replica}: {words}")
