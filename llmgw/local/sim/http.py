"""HTTP of one simulated machine: its own engines, and servers that have files."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from llmgw.base.errors import TimedOut, Unreachable
from llmgw.base.world import ANSWER_MOST, HttpAnswer, HttpStream
from llmgw.local.sim.disk import Disk
from llmgw.local.sim.machine import Machine

_TRAVELS: Final = 0.001
_PIECES: Final = 4


@dataclass
class FileServer:
    """What lies on a server of weights; `broken`: transfers end after the first piece."""

    files: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 20.0
    """What a whole transfer takes."""
    broken: bool = False
    away: bool = False


class SimHttp:
    """An HTTP client on one machine.

    Args:
        machine: whose engines it reaches.
        servers: servers of weights, by host name.
    """

    def __init__(
        self, machine: Machine, servers: Mapping[str, FileServer], rng: random.Random
    ) -> None:
        self._machine = machine
        self._servers = servers
        self._rng = rng

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float,
        most: int = ANSWER_MOST,
    ) -> HttpAnswer:
        """Ask an engine of this machine."""
        where = urlsplit(url)
        await asyncio.sleep(_TRAVELS)
        here = where.hostname == self._machine.host
        engine = self._machine.listening(where.port or 80) if here else None
        if engine is None:
            raise Unreachable(f"{url}: connection refused")
        answer = engine.answer(where.path, headers or {})
        if answer is None:
            await asyncio.sleep(timeout)
            raise TimedOut(f"{url}: no answer within {timeout:g} s")
        return answer

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> AsyncIterator[HttpStream]:
        """Fetch a file of a server, from where a former transfer broke off."""
        where = urlsplit(url)
        await asyncio.sleep(_TRAVELS)
        server = self._servers.get(where.hostname or "")
        if server is None or server.away:
            raise Unreachable(f"{url}: connection refused")
        data = server.files.get(where.path)
        begin = _begin(headers or {})
        yield _Transfer(server, data, begin, self._machine.disk, self._rng)


def _begin(headers: Mapping[str, str]) -> int:
    wanted = headers.get("range", "")
    return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0


class _Transfer:
    """One file on its way."""

    def __init__(
        self,
        server: FileServer,
        data: bytes | None,
        begin: int,
        disk: Disk,
        rng: random.Random,
    ) -> None:
        self._disk = disk
        self._server = server
        self._data = data
        self._begin = begin
        self._rng = rng

    @property
    def status(self) -> int:
        """Return the status code."""
        if self._data is None:
            return 404
        return 206 if self._begin else 200

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers."""
        if self._data is None:
            return {}
        size = len(self._data)
        found = {"etag": '"1"', "content-length": str(size - self._begin)}
        if self._begin:
            found["content-range"] = f"bytes {self._begin}-{size - 1}/{size}"
        return found

    async def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the file as it arrives."""
        data = (self._data or b"")[self._begin :]
        step = max(1, len(self._data or b"") // _PIECES)
        for place in range(0, len(data), step):
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * self._server.seconds / _PIECES)
            if self._disk.free < step:
                # What whoever reads would be told when it writes the piece.
                raise OSError(errno.ENOSPC, "No space left on device", "weights")
            yield data[place : place + step]
            if self._server.broken:
                raise Unreachable("the transfer broke")
