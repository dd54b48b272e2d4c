"""What TLS towards users costs a gateway: CPU beside the same without it.

    python -m tests.bench.gateway_tls [--seconds 3]

Two gateways, one with a certificate, on one core; the clients are this process. CPU µs for a short
request, for a paced chunk, and for a connection that carries one request; KB for an open stream.
"""

import argparse
import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable

import uvloop

from tests.bench.gateway.machine import Engines, cpu_us, resident
from tests.bench.gateway.measures import request
from tests.bench.gateway.ours import Ours
from tests.fakes.rawclient import RawClient

CLIENTS = 16
STREAMS = 64
HELD = 500
CHUNKS = 66

Work = Callable[["Side"], Awaitable[int]]


class Side:
    """One gateway, and how it is connected to."""

    def __init__(self, ours: Ours, seconds: float) -> None:
        self.ours = ours
        self.seconds = seconds
        self.context: ssl.SSLContext | None = None
        if ours.authority is not None:
            self.context = ssl.create_default_context(cafile=ours.authority)

    async def open(self) -> RawClient:
        """Return a new connection."""
        return await RawClient.open(self.ours.port, tls=self.context)

    async def repeated(self, kind: str, clients: int, *, anew: bool = False) -> int:
        """Ask for so long on so many connections; return how many replies came."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        asked = request(kind, 600, self.ours)

        async def one() -> int:
            client, count = await self.open(), 0
            while loop.time() < end:
                reply = await client.ask(asked)
                assert reply.status == 200
                assert reply.complete
                count += 1
                if anew:
                    client.close()
                    client = await self.open()
            client.close()
            return count

        return sum(await asyncio.gather(*(one() for _ in range(clients))))


async def short(side: Side) -> int:
    return await side.repeated("short", CLIENTS)


async def paced(side: Side) -> int:
    return await side.repeated("paced", STREAMS) * CHUNKS


async def connections(side: Side) -> int:
    return await side.repeated("short", CLIENTS, anew=True)


WORKS: dict[str, Work] = {
    "short request, us": short,
    "paced chunk, us": paced,
    "connection with one request, us": connections,
}


async def held(side: Side) -> float:
    """Return KB for a stream that is open and silent."""
    before = resident(side.ours.pid)
    clients = [await side.open() for _ in range(HELD)]
    for client in clients:
        await client.ask(request("idle", 600, side.ours), head_only=True)
    grown = resident(side.ours.pid) - before
    for client in clients:
        client.close()
    return grown / HELD / 1024


async def measure(sides: dict[str, Side]) -> dict[str, dict[str, float]]:
    """Return figures by what was measured and by side."""
    seen: dict[str, dict[str, float]] = {}
    for name, work in WORKS.items():
        for kind, side in sides.items():
            before = cpu_us(side.ours.pid)
            done = await work(side)
            each = (cpu_us(side.ours.pid) - before) / done
            seen.setdefault(name, {})[kind] = round(each, 1)
    for kind, side in sides.items():
        seen.setdefault("open stream, KB", {})[kind] = round(await held(side), 2)
    for figures in seen.values():
        figures["ratio"] = round(figures["tls"] / figures["plain"], 2)
    return seen


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    asked = parser.parse_args()
    engines = Engines()
    both = {"plain": Ours(engines.ports), "tls": Ours(engines.ports, tls=True)}
    try:
        sides = {kind: Side(ours, asked.seconds) for kind, ours in both.items()}
        print(json.dumps(uvloop.run(measure(sides)), indent=1))
    finally:
        for ours in both.values():
            ours.end()
        engines.end()


if __name__ == "__main__":
    main()
