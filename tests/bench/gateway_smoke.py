"""What a gateway's worker costs: CPU µs a short request and a chunk, and latency beside none.

    python -m tests.bench.gateway_smoke [--seconds 3]

Engine, worker and load are a process each, on loopback. CPU is the worker's own, from the kernel's
accounting, so that a busy machine distorts it little; latency is not worth much on one.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import uvloop

from tests.fakes.gateway import GatewayHere, route, table
from tests.fakes.rawclient import RawClient, chat, post

PAUSE = 0.02
SHORT = post(chat(kind="short"))
PACED = post(chat(kind="paced", stream=True))
BURST = post(chat(kind="burst", stream=True))
CHUNKS = 64
CONNECTIONS = 16
STREAMS = 64

_CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"token"},"finish_reason":null}]}\n\n'
)
_FRAMED = b"%x\r\n%b\r\n" % (len(_CHUNK), _CHUNK)
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":64}}\n\n'
_END = b"%x\r\n%b\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" % (len(_USAGE), _USAGE)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_BODY = (
    b'{"choices":[{"message":{"content":"%b"}}],"usage":{"prompt_tokens":9,"completion_tokens":9}}'
)
_PLAIN = _BODY % (b"x" * 500)
_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_PLAIN),
    _PLAIN,
)


class BenchEngine(asyncio.Protocol):
    """Answers as cheaply as Python can."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if b'"short"' in data:
            self.transport.write(_REPLY)
        elif b'"burst"' in data:
            self.transport.write(_HEAD + _FRAMED * CHUNKS + _END)
        else:
            self.transport.write(_HEAD)
            self.pace(CHUNKS)

    def pace(self, left: int) -> None:
        if self.transport.is_closing():
            return
        if not left:
            self.transport.write(_END)
            return
        self.transport.write(_FRAMED)
        asyncio.get_running_loop().call_later(PAUSE, self.pace, left - 1)


def engine_process(pipe: Connection) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(BenchEngine, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)

    uvloop.run(run())


def gateway_process(pipe: Connection, engine_port: int) -> None:
    async def run() -> None:
        gateway = await GatewayHere().start(table(route([engine_port])))
        pipe.send(gateway.port)
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await gateway.stop()

    uvloop.run(run())


def started(target: Callable[..., None], *more: object) -> tuple[int, int, Connection]:
    """Start a process; return its pid, its port, and the pipe that ends it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(theirs, *more))
    process.start()
    assert process.pid is not None
    return process.pid, ours.recv(), ours


def cpu_us(pid: int) -> float:
    """Return the CPU time of a process, all its threads, in µs."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


async def repeat(port: int, request: bytes, clients: int, seconds: float) -> list[float]:
    """Ask one after the other on so many connections; return the seconds that each took."""
    took: list[float] = []

    async def one() -> None:
        client = await RawClient.open(port)
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            reply = await client.ask(request)
            assert reply.status == 200
            assert reply.complete
            took.append(time.perf_counter() - begin)
        client.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return took


def measure(seconds: float) -> None:
    _, engine, engine_pipe = started(engine_process)
    pid, gateway, gateway_pipe = started(gateway_process, engine)
    try:
        for name, request, clients, pieces in (
            ("short request", SHORT, CONNECTIONS, 1),
            ("paced chunk", PACED, STREAMS, CHUNKS),
            ("burst chunk", BURST, CONNECTIONS, CHUNKS),
        ):
            uvloop.run(repeat(gateway, request, clients, 0.3))
            before = cpu_us(pid)
            took = uvloop.run(repeat(gateway, request, clients, seconds))
            each = (cpu_us(pid) - before) / (len(took) * pieces)
            direct = uvloop.run(repeat(engine, request, clients, seconds))
            print(
                f"{name:<14} gateway {each:7.1f} µs CPU ({len(took) * pieces} of them); "
                f"a reply takes {statistics.median(took) * 1e3:.2f} ms, "
                f"direct {statistics.median(direct) * 1e3:.2f} ms"
            )
    finally:
        gateway_pipe.send("end")
        engine_pipe.send("end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    measure(parser.parse_args().seconds)


if __name__ == "__main__":
    main()
