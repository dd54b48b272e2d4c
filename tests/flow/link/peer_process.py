"""One side of the link as a process of its own, so that a test can stop it: prints what happens.

python -m tests.flow.link.peer_process agent ADDRESS DIRECTORY INTERVAL
python -m tests.flow.link.peer_process server PORT DIRECTORY INTERVAL
"""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import uvloop

from llmgw.base.backoff import Backoff
from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError
from llmgw.link.dial import Dialer
from llmgw.link.server import AgentStream, LinkServer
from llmgw.link.stream import Stream
from llmgw.link.tls import client_context, files_in, server_context
from llmgw.model.link import AgentControl, AgentMessage, Ping
from llmgw.model.node import Heartbeat, Register
from tests.flow.link.place import welcome

CLOCK = SystemClock()


def say(*words: object) -> None:
    print(*words, flush=True)


async def agent(address: str, directory: Path, interval: float) -> None:
    async def session(stream: Stream[Any, Any]) -> float | None:
        stream.send(AgentMessage(register=Register(node="gpu-01")))
        beat = asyncio.create_task(beats(stream))
        try:
            async for message in stream:
                if message.welcome is not None:
                    stream.expect_every(interval)
                    say("welcome")
        except LlmgwError as error:
            say("lost", f"{CLOCK.monotonic():.3f}", error.message)
            raise
        finally:
            beat.cancel()
        return None

    async def beats(stream: Stream[Any, Any]) -> None:
        for number in range(1_000_000):
            stream.send(AgentMessage(heartbeat=Heartbeat(sequence=number)))
            await CLOCK.sleep(interval)

    files = files_in(directory)
    dialer = Dialer(
        lambda: [address],
        lambda: client_context(files),
        "agent",
        clock=CLOCK,
        rng=random.Random(1),
        backoff=Backoff(first=0.05, most=0.2),
        silence=3 * interval,
    )
    await dialer.run(session)


class Server:
    def __init__(self, interval: float) -> None:
        self._interval = interval

    async def serve(self, stream: AgentStream) -> None:
        ping: asyncio.Task[None] | None = None
        try:
            async for message in stream:
                if message.register is not None:
                    stream.send(AgentControl(welcome=welcome(self._interval)))
                    stream.expect_every(self._interval)
                    say("registered")
                    ping = asyncio.create_task(self._pings(stream))
        except LlmgwError as error:
            say("lost", f"{CLOCK.monotonic():.3f}", error.message)
            raise
        finally:
            if ping is not None:
                ping.cancel()

    async def _pings(self, stream: AgentStream) -> None:
        for number in range(1_000_000):
            stream.send(AgentControl(ping=Ping(number=number)))
            await CLOCK.sleep(self._interval)


async def server(port: int, directory: Path, interval: float, host: str = "127.0.0.1") -> None:
    serving: Any = Server(interval)
    link = LinkServer(
        server_context(files_in(directory)),
        on_agent=serving.serve,
        on_gateway=serving.serve,
        on_join=serving,
        clock=CLOCK,
        silence=3 * interval,
    )
    say("listening", await link.start(host, port))
    await asyncio.Event().wait()


def main() -> None:
    side, where, directory, interval = sys.argv[1:5]
    if side == "agent":
        uvloop.run(agent(where, Path(directory), float(interval)))
    else:
        host = sys.argv[5] if len(sys.argv) > 5 else "127.0.0.1"
        uvloop.run(server(int(where), Path(directory), float(interval), host))


if __name__ == "__main__":
    main()
