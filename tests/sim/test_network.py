"""Links in memory: order, half-open, stalled, reset, and what is left of a killed program."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.local.sim.disk import Disk
from llmgw.local.sim.loop import Life, SimLoop
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.network import End, Network
from llmgw.local.sim.requests import door

SERVER = ("127.0.1.1", 7442)
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: e\r\ncontent-length: 2\r\n\r\n{}"


class Peer(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.got = b""
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


@pytest.fixture
def network(loop: SimLoop) -> Network:
    return Network(loop, random.Random(1))


async def connected(loop: SimLoop, network: Network) -> tuple[Peer, Peer]:
    here, there = Peer(), Peer()
    await loop.create_server(lambda: there, sock=await network.bind(*SERVER))
    await loop.create_connection(lambda: here, *SERVER)
    await asyncio.sleep(1)
    return here, there


def test_bytes_arrive_late_and_in_order(loop: SimLoop, network: Network):
    async def main() -> None:
        here, there = await connected(loop, network)
        for number in range(50):
            here.transport.write(b"%02d" % number)
            await asyncio.sleep(0.001)
        assert len(there.got) < 100
        await asyncio.sleep(1)
        assert there.got == b"".join(b"%02d" % number for number in range(50))

    loop.run_until_complete(main())


def test_nobody_is_told_of_a_half_open_link(loop: SimLoop, network: Network):
    async def main() -> None:
        here, there = await connected(loop, network)
        network.links[0].go_silent(0, 1)
        here.transport.write(b"lost")
        there.transport.abort()
        await asyncio.sleep(3600)
        assert (here.got, here.lost, there.got) == (b"", [], b"")
        assert len(there.lost) == 1

    loop.run_until_complete(main())


def test_what_a_stalled_link_holds_back_arrives_when_it_goes_on(loop: SimLoop, network: Network):
    async def main() -> None:
        here, there = await connected(loop, network)
        link = network.links[0]
        link.stall()
        here.transport.write(b"one ")
        await asyncio.sleep(10)
        here.transport.write(b"two")
        here.transport.close()
        await asyncio.sleep(10)
        assert (there.got, there.lost) == (b"", [])
        link.resume()
        await asyncio.sleep(1)
        assert (there.got, there.lost) == (b"one two", [None])

    loop.run_until_complete(main())


def test_a_reset_is_told_to_both_sides_once(loop: SimLoop, network: Network):
    async def main() -> None:
        here, there = await connected(loop, network)
        network.links[0].reset()
        here.transport.close()
        await asyncio.sleep(1)
        assert [len(here.lost), len(there.lost)] == [1, 1]
        assert isinstance(there.lost[0], ConnectionResetError)

    loop.run_until_complete(main())


def test_the_kernel_closes_what_a_killed_program_had_open(loop: SimLoop, network: Network):
    life, there = Life("a server", SERVER[0]), Peer()

    async def serve() -> None:
        await loop.create_server(lambda: there, sock=await network.bind(*SERVER))
        await asyncio.sleep(3600)

    async def main() -> None:
        server = loop.live(life, serve())
        await asyncio.sleep(1)
        here = Peer()
        await loop.create_connection(lambda: here, *SERVER)
        await asyncio.sleep(1)
        loop.kill(life)
        network.end(life)
        await asyncio.sleep(1)
        assert len(here.lost) == 1
        assert there.lost == []
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Peer, *SERVER)
        assert not server.done()

    loop.run_until_complete(main())


def test_a_cut_way_hangs_new_connections_and_silences_open_ones(loop: SimLoop, network: Network):
    life = Life("a client", "127.1.0.1")

    async def client() -> str:
        await loop.create_connection(Peer, *SERVER)
        await asyncio.sleep(5)
        try:
            async with asyncio.timeout(10):
                await loop.create_connection(Peer, *SERVER)
        except TimeoutError:
            return "hung"
        return "connected"

    async def main() -> None:
        await loop.create_server(Peer, sock=await network.bind(*SERVER))
        task = loop.live(life, client())
        await asyncio.sleep(1)
        network.split("127.1.0.1", SERVER[0])
        assert await task == "hung"
        assert network.links[0].silent == [True, True]

    loop.run_until_complete(main())


def test_whoever_closed_reads_nothing_more(loop: SimLoop, network: Network):
    async def main() -> None:
        here, there = await connected(loop, network)
        here.transport.write(b"first")
        there.transport.write(b"late")
        end = there.transport
        assert isinstance(end, End)
        end.close()
        end.receive(b"what arrives in the same moment")
        end.end_here()
        await asyncio.sleep(1)
        assert (there.got, there.lost) == (b"", [None])
        assert here.got == b"late"

    loop.run_until_complete(main())


def test_a_side_that_sends_nothing_more_still_hears(loop: SimLoop, network: Network):
    class Answering(Peer):
        def eof_received(self) -> bool:
            self.transport.write(b"answer")
            return True

    async def run() -> tuple[bytes, list[Exception | None]]:
        await loop.create_server(Answering, sock=await network.bind(*SERVER))
        transport, client = await loop.create_connection(Peer, *SERVER)
        transport.write(b"question")
        transport.write_eof()
        await asyncio.sleep(1.0)
        return client.got, client.lost

    assert loop.run_until_complete(run()) == (b"answer", [])


def test_an_engine_answers_whoever_connects_and_breaks_off_when_it_ends(
    loop: SimLoop, network: Network
):
    machine = Machine(loop, "n1", "127.1.0.1", Disk(total=1 << 20))
    asked: list[str] = []
    network.doors[machine.host] = door(machine, lambda _m, _e, client: asked.append(client))

    async def run() -> tuple[bytes, bytes, int]:
        argv = ("engine", "--port", "7500", "--model", "m")
        await machine.start(argv, env={}, log=Path("/log"))
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Peer, machine.host, 7501)
        await asyncio.sleep(10.0)
        first, second = [await loop.create_connection(Peer, machine.host, 7500) for _ in range(2)]
        first[0].write(REQUEST)
        await asyncio.sleep(5.0)
        second[0].write(REQUEST)
        await asyncio.sleep(0.5)
        (engine,) = machine.engines.values()
        engine.crash()
        await asyncio.sleep(1.0)
        return first[1].got, second[1].got, len(second[1].lost)

    answer, cut, lost = loop.run_until_complete(run())
    assert answer.startswith(b"HTTP/1.1 200")
    assert (cut, lost, len(asked)) == (b"", 1, 2)
