"""A grpclib stream without a connection: what it reads is put in, what is written is kept."""

import asyncio
from typing import Any

from llmgw.link import codec


class FakeTransport:
    def __init__(self) -> None:
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


class FakeInner:
    def __init__(self) -> None:
        self._transport = FakeTransport()
        self._bytes = bytearray()
        self._more = asyncio.Event()
        self._eof = False

    async def recv_data(self, size: int) -> bytes:
        while len(self._bytes) < size and not self._eof:
            self._more.clear()
            await self._more.wait()
        if len(self._bytes) < size:
            assert not self._bytes, "Received less data than expected"
            return b""
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken


class FakeRaw:
    """The accepting side's stream."""

    def __init__(self) -> None:
        self._stream = FakeInner()
        self.sent: list[bytes] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.failure: Exception | None = None

    @property
    def transport(self) -> FakeTransport:
        return self._stream._transport

    def put(self, record: Any) -> None:
        data = codec.encode(record)
        self.put_bytes(b"\0" + len(data).to_bytes(4, "big") + data)

    def put_bytes(self, data: bytes) -> None:
        self._stream._bytes += data
        self._stream._more.set()

    def end(self) -> None:
        self._stream._eof = True
        self._stream._more.set()

    async def send_message(self, data: bytes) -> None:
        await self.may_write.wait()
        if self.failure is not None:
            raise self.failure
        self.sent.append(data)
