"""One end of the socket pair between the parent and a worker."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from llmgw.base.errors import Unreadable
from llmgw.base.log import get
from llmgw.gateway.frames import FrameReader, FromWorker, ToWorker, framed

log = get(__name__)

HIGH_WATER = 8 << 20
"""Bytes that may wait to be written before the other end counts as slow."""


class Channel(asyncio.Protocol):
    """Sends and receives frames; both ends are on this machine and trust each other.

    `send` never blocks. While the other end is slow, `ready` is False and the sender says only what
    it must: what the parent holds back is made good by a whole table when `on_ready` is called.
    """

    def __init__(
        self,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self.ready = True

    async def open(self, end: socket.socket) -> None:
        """Take one end of the pair over."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self, sock=end)

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message; nothing happens when the other end is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(message))

    def close(self) -> None:
        """Close this end after what was sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        """Hand whole frames on."""
        try:
            frames = self._reader.feed(data)
        except Unreadable as error:
            log.error("the other end speaks nonsense", error=error.message)
            self.close()
            return
        for frame in frames:
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Tell that the other end is gone."""
        self._on_lost()

    def pause_writing(self) -> None:
        """Note that the other end is slow."""
        self.ready = False

    def resume_writing(self) -> None:
        """Note that it has caught up."""
        self.ready = True
        if self._on_ready is not None:
            self._on_ready()
