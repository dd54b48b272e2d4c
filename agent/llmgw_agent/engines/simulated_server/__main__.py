"""The process: arguments, loading, signals, faults at the start."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from llmgw_agent.engines.simulated_server.answers import Answers
from llmgw_agent.engines.simulated_server.arguments import (
    Arguments,
    ArgumentsWrong,
    parse_arguments,
)
from llmgw_agent.engines.simulated_server.engine import Engine
from llmgw_agent.engines.simulated_server.http import Connection

_LOAD_FAULTS = {
    "out-of-memory": "simulated: out of memory while loading the model, as it was told",
    "bad-file": "simulated: not a model file, as it was told",
}


def say(words: str) -> None:
    """Print a line at once: the log is read while the engine runs."""
    print(words, flush=True)


def main(argv: Sequence[str]) -> int:
    """Run until a signal ends it; return the exit status."""
    try:
        arguments = parse_arguments(argv)
    except ArgumentsWrong as error:
        say(f"simulated: {error}")
        return 1
    return asyncio.run(_serve(arguments, os.environ.get("LLMGW_ENGINE_KEY") or None))


async def _serve(arguments: Arguments, key: str | None) -> int:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    _take_signals(loop, ended, deaf=arguments.fault.ignore_term)
    engine = Engine(arguments, crash=_crash)
    answers = Answers(engine, key)
    try:
        server = await loop.create_server(
            lambda: Connection(answers), arguments.host, arguments.port, backlog=1024
        )
    except OSError as error:
        taken = "address already in use" if error.errno == 98 else str(error)
        say(f"simulated: couldn't bind {arguments.host}:{arguments.port}: {taken}")
        return 1
    say(f"simulated: loading {arguments.model}, which is no model, for {arguments.load_time:g} s")
    try:
        async with asyncio.timeout(arguments.load_time):
            await ended.wait()
    except TimeoutError:
        pass
    if not ended.is_set():
        words = _LOAD_FAULTS.get(arguments.fault.load or "")
        if words is not None:
            say(words)
            return 1
        where = "the CPU instead" if arguments.fault.load == "no-gpu" else "nothing"
        say(f"simulated: computes on {where}")
        port = server.sockets[0].getsockname()[1]
        say(f"simulated: listening on http://{arguments.host}:{port}")
        engine.loaded = True
        await ended.wait()
    server.close()
    say("simulated: ends as it was asked to")
    return 0


def _take_signals(loop: asyncio.AbstractEventLoop, ended: asyncio.Event, *, deaf: bool) -> None:
    """SIGTERM once ends it, twice aborts it: llama-server does the same."""

    def term() -> None:
        say("simulated: received SIGTERM")
        if deaf:
            return
        if ended.is_set():
            say("simulated: received a second SIGTERM, aborts")
            os.abort()
        ended.set()

    loop.add_signal_handler(signal.SIGTERM, term)
    loop.add_signal_handler(signal.SIGINT, ended.set)


def _crash() -> None:
    say("simulated: crashes, as it was told")
    os.abort()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
