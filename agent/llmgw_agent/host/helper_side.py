"""The other end of `llmgw_agent.host.helper`: what runs in a helper process."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw_agent.host.helper import Failed, Said

Say = Callable[[Progress], None]


def serve(answer: Callable[[bytes], Record]) -> None:
    """Answer every line of standard input; return at its end."""
    for line in sys.stdin.buffer:
        try:
            _say(Said(done=msgspec.Raw(msgspec.json.encode(answer(line)))))
        except Exception as error:  # noqa: BLE001 (a process's top: the asker is told)
            _say(Said(failed=_failed(error)))


def serve_one(answer: Callable[[bytes, Say], Awaitable[Record]]) -> None:
    """Answer the first line of standard input, and end.

    The work is cancelled when standard input ends (the asker died) or SIGTERM comes, so that it can
    kill what it started.
    """
    asyncio.run(_serve_one(answer))


async def _serve_one(answer: Callable[[bytes, Say], Awaitable[Record]]) -> None:
    loop = asyncio.get_running_loop()
    line = await loop.run_in_executor(None, sys.stdin.buffer.readline)
    if not line:
        return
    work = asyncio.ensure_future(answer(line, _say_progress))
    stdin = sys.stdin.fileno()

    def stop() -> None:
        # Once: a second cancel would interrupt the first one's cleaning up.
        if loop.remove_reader(stdin):
            work.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    # Nothing is sent after the request: that standard input can be read means that it ended.
    loop.add_reader(stdin, stop)
    try:
        _say(Said(done=msgspec.Raw(msgspec.json.encode(await work))))
    except asyncio.CancelledError:
        return
    except Exception as error:  # noqa: BLE001 (a process's top: the asker is told)
        _say(Said(failed=_failed(error)))
    finally:
        loop.remove_reader(stdin)


def _say_progress(progress: Progress) -> None:
    _say(Said(progress=progress))


def _say(said: Said) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Nobody is left to tell; the flush at exit would fail as well.
        os._exit(0)


def _failed(error: Exception) -> Failed:
    if isinstance(error, LlmgwError):
        return Failed(error=type(error).__name__, message=error.message, hint=error.hint)
    return Failed(error="LlmgwError", message=f"{type(error).__name__}: {error}")
