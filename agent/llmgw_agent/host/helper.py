"""Helper processes: what may block for ever is done by a process that can be killed and replaced.

A call on a network filesystem or into the NVIDIA driver may never come back, and a thread that
hangs in one can't be ended. A helper is asked over its standard input and answers on its standard
output, one JSON line each; `llmgw_agent.host.helper_side` is the other end.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from llmgw.base.errors import (
    Conflict,
    LlmgwError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.base.limits import system_words
from llmgw.base.log import get
from llmgw.base.tied import NOT_STARTED
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw_agent.host.helper_lines import Failed, Said
from llmgw_agent.host.piped import Piped

log = get(__name__)

A = TypeVar("A")

_LINE_LIMIT = 16 << 20
_ERRORS = (Conflict, NotFound, Refused, TimedOut, Unreachable, Unreadable, Usage, LlmgwError)
_REAPED = 1.0
_ABANDONED_AT_MOST = 4
"""Processes that hang in the kernel and can't be killed, before no more are started."""


class Helper(Protocol):
    """A process of its own for calls that may block for ever; it answers one request at a time."""

    async def ask(
        self,
        request: Record,
        answer: type[A],
        *,
        silence: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> A:
        """Return the answer to a request.

        Args:
            request: what to do.
            answer: the record that the helper answers with.
            silence: seconds without a line after which the process is killed.
            progress: told how far it is.

        Raises:
            LlmgwError: what the helper raised, by its kind.
            TimedOut: it said nothing for `silence` seconds; the next request has a new process.
            Unreachable: it ended without an answer.
        """
        ...

    async def close(self) -> None:
        """End the process."""
        ...


class HelperProcess:
    """A helper that is started at its first request and again after it was killed.

    It ends with this process, however that ends, and while it is stopped too.

    Args:
        argv: the program; it speaks `llmgw_agent.host.helper_side`'s lines.
        environ: its environment.
        grace: seconds between the request to end and SIGKILL. A helper that has children of its
            own needs some; one that may hang in the kernel needs none.
    """

    def __init__(
        self, argv: Sequence[str], *, environ: Mapping[str, str], grace: float = 0.0
    ) -> None:
        self._argv = tuple(argv)
        self._name = self._argv[-1].rpartition(".")[2]
        self._environ = helper_environ(environ)
        self._grace = grace
        self._process: Piped | None = None
        self._one_at_a_time = asyncio.Lock()
        self._abandoned: list[Piped] = []

    async def ask(
        self,
        request: Record,
        answer: type[A],
        *,
        silence: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> A:
        """Return the answer to a request; see `Helper`."""
        async with self._one_at_a_time:
            process = await self._running()
            try:
                return await self._converse(process, request, answer, silence, progress)
            except BaseException as error:
                # After its own error the helper waits for the next request; after anything else
                # (silence, a cancel, a broken pipe) what it does is not known.
                if not isinstance(error, _Told):
                    await self._end()
                    raise
                raise error.error from None

    async def close(self) -> None:
        """End the process, if one runs."""
        await self._end()

    async def _running(self) -> Piped:
        self._abandoned = [p for p in self._abandoned if p.returncode is None]
        if len(self._abandoned) >= _ABANDONED_AT_MOST:
            raise TimedOut(f"{len(self._abandoned)} helper processes hang in the kernel already")
        if self._process is not None and self._process.returncode is not None:
            self._process.close()
            self._process = None
        if self._process is None:
            self._process = await self._spawn()
        return self._process

    async def _spawn(self) -> Piped:
        try:
            return await Piped.start(self._argv, environ=self._environ, line_most=_LINE_LIMIT)
        except OSError as error:
            raise Unreachable(f"{self._name}: can't be started: {system_words(error)}") from error

    async def _converse(
        self,
        process: Piped,
        request: Record,
        answer: type[A],
        silence: float,
        progress: Callable[[Progress], None] | None,
    ) -> A:
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        while True:
            said = await self._line(process, silence)
            if said.failed is not None:
                raise _Told(_error(said.failed))
            if bytes(said.done):
                return self._decoded(said.done, answer)
            if said.progress is not None and progress is not None:
                progress(said.progress)

    async def _line(self, process: Piped, silence: float) -> Said:
        try:
            async with asyncio.timeout(silence):
                line = await process.stdout.readline()
        except TimeoutError as error:
            raise TimedOut(f"{self._name}: no answer within {silence:g} s") from error
        except ValueError as error:
            raise Unreachable(
                f"{self._name}: an answer of more than {_LINE_LIMIT >> 20} MiB"
            ) from error
        if not line:
            raise Unreachable(f"{self._name}: {await _how_ended(process)}")
        return self._decoded(line, Said)

    def _decoded(self, line: bytes | msgspec.Raw, kind: type[A]) -> A:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._name}: {bytes(line)[:80]!r} is no answer") from error

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.stdin.close()
        try:
            if self._grace > 0 and await _ends(process, signal.SIGTERM, self._grace):
                return
            if not await _ends(process, signal.SIGKILL, 2.0):
                self._abandoned.append(process)
                log.warning("helper hangs in the kernel and was left behind", pid=process.pid)
        finally:
            process.close()


class _Told(Exception):
    """Carries an error that the helper told, apart from those of talking to it."""

    def __init__(self, error: LlmgwError) -> None:
        super().__init__(error.message)
        self.error = error


def helper_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what marks an engine as this agent's own."""
    return {k: v for k, v in environ.items() if k not in ("LLMGW_STATE", "LLMGW_SHARD")}


async def _ends(process: Piped, signal_: signal.Signals, seconds: float) -> bool:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_)
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def _how_ended(process: Piped) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAPED):
            if await process.wait() == NOT_STARTED:
                return "can't be started: there is no such program, or it may not be run"
    return "the helper process ended without an answer"


def _error(failed: Failed) -> LlmgwError:
    kinds = {kind.__name__: kind for kind in _ERRORS}
    return kinds.get(failed.error, LlmgwError)(failed.message, hint=failed.hint)
