"""A child whose pipes the event loop serves; it ends with this process, however that ends.

Not an asyncio subprocess: with too few files left to open, uvloop's fails without saying why, and
its loop can't be closed any more.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from llmgw.base.tied import tied


class Piped:
    """The child. It leads a session and a group of its own.

    Args:
        process: started with pipes.
        line_most: bytes of a line that is read.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", line_most: int) -> None:
        self.stdout = asyncio.StreamReader(limit=line_most)
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._handle: int | None = None

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, environ: Mapping[str, str], line_most: int
    ) -> "Piped":
        """Start it.

        Args:
            argv: the program.
            environ: its whole environment.
            line_most: bytes of a line that is read.

        Raises:
            OSError: there are too few files to open. That there is no such program is told by its
                end alone: `llmgw.base.tied.NOT_STARTED`.
        """
        with tied(argv, env=environ) as (command, inherited):
            process = subprocess.Popen(  # noqa: ASYNC220
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(inherited,),
            )
        piped = cls(process, line_most)
        try:
            await piped._connect()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            piped.close()
            process.wait()
            raise
        return piped

    @property
    def pid(self) -> int:
        """Return its pid, which is its group's id too."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._process.poll()

    @property
    def stdin(self) -> asyncio.WriteTransport:
        """Return where it is written to."""
        assert self._writing is not None  # noqa: S101 (connected at its start)
        return self._writing

    async def wait(self) -> int:
        """Return its exit status when it has ended."""
        await self._ended.wait()
        return self._process.wait()

    def close(self) -> None:
        """Let go of its pipes; where it has not ended it is not waited for any more."""
        ends = (
            (self._writing, self._process.stdin),
            (self._reading, self._process.stdout),
        )
        for transport, pipe in ends:
            if transport is not None:
                transport.close()
            elif pipe is not None:
                pipe.close()
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    async def _connect(self) -> None:
        self._handle = os.pidfd_open(self.pid)
        self._loop.add_reader(self._handle, self._end)
        self._reading, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.stdout), self._process.stdout
        )
        self._writing, _ = await self._loop.connect_write_pipe(
            asyncio.BaseProtocol, self._process.stdin
        )

    def _end(self) -> None:
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
        self._ended.set()
