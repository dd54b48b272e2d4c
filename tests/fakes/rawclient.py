"""A client that writes exactly the bytes it is told, and reads replies one by one."""

import asyncio
import json
import ssl
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.fakes.gateway import KEY

TIMEOUT = 10.0


@dataclass
class Reply:
    """One reply, taken apart."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True
    """False when the connection ended before the reply did."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of an error in OpenAI's shape."""
        return self.json["error"]["code"]

    @property
    def events(self) -> list[Any]:
        """The data of each event; JSON decoded where it is JSON."""
        found = [event.removeprefix(b"data: ") for event in self.body.split(b"\n\n") if event]
        return [json.loads(data) if data[:1] == b"{" else data.decode() for data in found]


class RawClient:
    """One connection. `abort_all` ends every one that a test left open."""

    left_open: ClassVar[set["RawClient"]] = set()

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.left_open.add(self)

    @classmethod
    def abort_all(cls) -> None:
        while cls.left_open:
            cls.left_open.pop().abort()

    @classmethod
    async def open(
        cls, port: int, *, limit: int = 1 << 26, tls: ssl.SSLContext | None = None
    ) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit, ssl=tls))

    async def send(self, *parts: bytes) -> None:
        """Write parts, each by itself."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def ask(self, *parts: bytes, head_only: bool = False) -> Reply:
        """Send and read one reply."""
        await self.send(*parts)
        return await self.reply(head_only=head_only)

    async def reply(self, *, head_only: bool = False) -> Reply:
        """Read one reply."""
        async with asyncio.timeout(TIMEOUT):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").strip().split("\r\n")
            pairs = (line.lower().partition(":") for line in lines)
            headers = {name: value.strip() for name, _, value in pairs}  # a value may be empty
            status = int(first.split(" ")[1])
            if head_only or status < 200 or status in {204, 304}:
                return Reply(status, headers, b"")
            body, complete = await self._body(headers)
            return Reply(status, headers, body, complete)

    async def _body(self, headers: dict[str, str]) -> tuple[bytes, bool]:
        body = b""
        try:
            if "content-length" in headers:
                return await self.reader.readexactly(int(headers["content-length"])), True
            if headers.get("transfer-encoding") != "chunked":
                return await self.reader.read(), True
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += await self.reader.readexactly(size)
                assert await self.reader.readexactly(2) == b"\r\n"
            assert await self.reader.readexactly(2) == b"\r\n"
        except (asyncio.IncompleteReadError, ConnectionError):
            return body, False
        return body, True

    async def event(self) -> bytes:
        """Read one chunk of a stream whose head was read."""
        async with asyncio.timeout(TIMEOUT):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            return data

    async def ended(self) -> bytes:
        """Wait until the gateway closes; return what came before."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()


def post(
    body: bytes | dict[str, Any],
    *lines: bytes,
    path: bytes = b"/v1/chat/completions",
    key: str | None = KEY,
    version: bytes = b"1.1",
    length: int | None = None,
) -> bytes:
    """Return a request as it is written."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [b"POST %b HTTP/%b" % (path, version), b"Host: gateway"]
    if key is not None:
        head.append(b"Authorization: Bearer " + key.encode())
    head += [b"Content-Type: application/json", *lines]
    if not any(
        line.lower().startswith((b"transfer-encoding", b"content-length")) for line in lines
    ):
        head.append(b"Content-Length: %d" % (len(data) if length is None else length))
    return b"\r\n".join(head) + b"\r\n\r\n" + data


def get(path: bytes, *lines: bytes, key: str | None = KEY, method: bytes = b"GET") -> bytes:
    """Return a request without a body as it is written."""
    head = [b"%b %b HTTP/1.1" % (method, path), b"Host: gateway", *lines]
    if key is not None:
        head.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join(head) + b"\r\n\r\n"


def chat(model: str = "m", **more: object) -> dict[str, Any]:
    """Return the body of a chat request."""
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}
