"""A peer that knows gRPC and keeps to nothing else: raw bytes, or nothing, or it does not read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from llmgw.link import codec
from llmgw.link.connect import Connection, connect
from llmgw.link.tls import client_context
from llmgw.model.link import AgentMessage
from llmgw.model.node import Register
from tests.flow.link.place import Place

REGISTER = codec.encode(AgentMessage(register=Register(node="gpu-01")))


def framed(data: bytes, *, compressed: int = 0, size: int | None = None) -> bytes:
    """Return a gRPC message, with a lie about its size when asked for."""
    announced = len(data) if size is None else size
    return bytes([compressed]) + announced.to_bytes(4, "big") + data


class BadPeer:
    """An open stream to the agents' service, held by hand."""

    def __init__(self, connection: Connection, raw: Any) -> None:
        self.connection = connection
        self.raw = raw

    async def register(self) -> None:
        await self.send(framed(REGISTER))
        await self.raw.recv_message()

    async def send(self, data: bytes) -> None:
        await self.raw._stream.send_data(data)

    async def status(self) -> str:
        """Return the status with which the other side ended the stream, as `NAME: words`."""
        try:
            async with asyncio.timeout(10):
                while await self.raw.recv_message() is not None:
                    pass
                self.raw._maybe_raise()
        except GRPCError as error:
            return f"{error.status.name}: {error.message}"
        except StreamTerminatedError as error:
            try:
                self.raw._maybe_raise()
            except GRPCError as status:
                return f"{status.status.name}: {status.message}"
            return f"lost: {error}"
        return "OK"


@asynccontextmanager
async def bad_peer(place: Place) -> AsyncIterator[BadPeer]:
    connection = await connect(place.address, client_context(place.issue("node", "gpu-01")))
    request = connection.channel.request(codec.AGENT.route, Cardinality.STREAM_STREAM, bytes, bytes)
    async with request as raw:
        await raw.send_request()
        await raw.recv_initial_metadata()
        yield BadPeer(connection, raw)
        connection.abort()
