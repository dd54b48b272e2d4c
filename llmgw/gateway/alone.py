"""A gateway without a control plane: its table is a file, and it shows its own metrics (GW-7)."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.base.log import get
from llmgw.gateway.endpoints_file import read_file, table_of
from llmgw.gateway.membership import Membership
from llmgw.gateway.table import Table
from llmgw.model.link import CertificateRequest

log = get(__name__)

LOOK = 1.0
"""Seconds between two looks at whether the file changed."""


class NoCluster(Membership):
    """Who a gateway is that belongs to no cluster."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def control_planes(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    @property
    def id(self) -> str:
        """Return its own name."""
        return self._name

    def context(self) -> ssl.SSLContext:
        """Refuse: there is nobody to dial."""
        raise Refused("this gateway has no control plane")

    def request(self, now: float) -> CertificateRequest | None:  # noqa: ARG002
        """Return None: it has no certificate to renew."""
        return None


class FileTable:
    """The table that a file stands for, read again when it changed.

    A file that can't be read changes nothing: the last table stays in force, and the log says why.

    Args:
        path: the file.
        clock: paces looks.

    Raises:
        LlmgwError: at the start, when the file can't be read.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen = self._stamp()
        self._reload = asyncio.Event()
        self.table: Table = table_of(read_file(path))

    def reload(self) -> None:
        """Read the file again, whether it changed or not."""
        self._reload.set()

    async def follow(self, changed: Callable[[Table], None]) -> None:
        """Tell of each new table, until cancelled."""
        while True:
            await self._clock.sleep(LOOK)
            stamp = self._stamp()
            if stamp == self._seen and not self._reload.is_set():
                continue
            self._seen = stamp
            self._reload.clear()
            try:
                table = table_of(read_file(self._path))
            except LlmgwError as error:
                log.error("the endpoints can't be read: the last ones stay", why=error.message)
                continue
            if table != self.table:
                self.table = table
                log.info("the endpoints were read again", file=str(self._path))
                changed(table)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            seen = self._path.stat()
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_size, seen.st_ino
