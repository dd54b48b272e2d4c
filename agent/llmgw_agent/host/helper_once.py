"""A helper process that does one long thing, with an event loop, and tells how far it is."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import msgspec

from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw_agent.host.helper_lines import Said
from llmgw_agent.host.helper_side import failed, say

Say = Callable[[Progress], None]


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
        say(Said(done=msgspec.Raw(msgspec.json.encode(await work))))
    except asyncio.CancelledError:
        return
    except Exception as error:  # noqa: BLE001 (a process's top: the asker is told)
        say(Said(failed=failed(error)))
    finally:
        loop.remove_reader(stdin)


def _say_progress(progress: Progress) -> None:
    say(Said(progress=progress))
