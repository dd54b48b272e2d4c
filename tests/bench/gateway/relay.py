"""A relay that passes bytes on and looks at none: what sockets and the event loop cost alone."""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from typing import ClassVar, cast

import uvloop

BACKLOG = 4096


class Half(asyncio.Protocol):
    """One end of a relayed connection; what comes before the other end is there is held."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Half | None = None
        self.held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.other is None or self.other.transport is None:
            return
        if self.other.transport.is_closing():
            self.transport.abort()
        elif self.other.held:
            self.transport.write(self.other.held)
            self.other.held = b""

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.held += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.abort()


class Front(Half):
    """The client's end: connects to the next of the engines."""

    engines: Iterator[int]
    tasks: ClassVar[set[asyncio.Task[None]]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        task = asyncio.ensure_future(self.connect())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def connect(self) -> None:
        """Have the other end."""
        self.other = back = Half()
        back.other = self
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: back, "127.0.0.1", next(self.engines))


async def serve(port: int) -> None:
    """Serve until killed."""
    await asyncio.get_running_loop().create_server(Front, "127.0.0.1", port, backlog=BACKLOG)
    await asyncio.Event().wait()


if __name__ == "__main__":
    Front.engines = itertools.cycle(map(int, sys.argv[2:]))
    uvloop.run(serve(int(sys.argv[1])))
