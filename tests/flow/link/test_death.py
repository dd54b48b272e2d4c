"""A peer that is gone without closing is noticed within three intervals and a second, both ways."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmgw.base.backoff import Backoff
from llmgw.model.link import AgentControl, Ping
from tests.flow.link.bad_peer import bad_peer
from tests.flow.link.place import Peer, Place
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
INTERVAL = 0.4
BOUND = 3 * INTERVAL + 1.0


class Process:
    """A side of the link as a process; `lines` is what it has printed."""

    def __init__(self, *argv: object) -> None:
        paths = ":".join(str(ROOT / part) for part in (".", "agent", "tui", "proto"))
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.flow.link.peer_process", *map(str, argv)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._child.stdout is not None
        self._out = self._child.stdout
        os.set_blocking(self._out.fileno(), False)
        self._text = ""

    @property
    def lines(self) -> list[str]:
        self._text += (self._out.read() or b"").decode()
        return self._text.splitlines()

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        self._out.close()


@contextmanager
def process(*argv: object) -> Iterator[Process]:
    made = Process(*argv)
    try:
        yield made
    finally:
        made.end()


async def test_a_stopped_agent_is_noticed_and_returns_by_itself(place: Place):
    place.control.interval = INTERVAL
    files = place.issue("node", "gpu-01")
    with process("agent", place.address, files.authority.parent, INTERVAL) as agent:
        # The kernel of a stopped process goes on acknowledging: only a timer of ours can notice.
        ping = asyncio.create_task(pings(place))
        await wait_until(lambda: len(place.control.heard) > 3)
        agent.signal(signal.SIGSTOP)
        began = time.monotonic()
        await wait_until(lambda: place.control.ends, what="the stopped agent is noticed")
        assert time.monotonic() - began < BOUND
        assert "no message from it for 1.2 s" in place.control.ends[0]
        agent.signal(signal.SIGCONT)
        await wait_until(lambda: len(place.control.streams) == 2, what="the agent is back")
        assert place.control.streams[0] is not place.control.streams[1]
        ping.cancel()


async def pings(place: Place) -> None:
    for number in range(10_000):
        for stream in place.control.streams:
            stream.send(AgentControl(ping=Ping(number=number)))
        await asyncio.sleep(INTERVAL)


async def test_a_stopped_control_plane_is_noticed_and_dialled_again(place: Place):
    directory = place.server_files.authority.parent
    with process("server", 0, directory, INTERVAL) as server:
        await wait_until(lambda: server.lines)
        port = int(server.lines[0].split()[1])
        peer = Peer()
        dialer = place.dialer(
            place.issue("node", "gpu-01"),
            addresses=[f"127.0.0.1:{port}"],
            silence=3 * INTERVAL,
        )
        place.run(dialer, peer)
        await wait_until(peer.welcomes)
        server.signal(signal.SIGSTOP)
        began = time.monotonic()
        await wait_until(lambda: peer.ends, what="the stopped control plane is noticed")
        assert time.monotonic() - began < BOUND
        assert "no message from it for 1.2 s" in peer.ends[0]
        server.signal(signal.SIGCONT)
        await wait_until(lambda: dialer.opened == 2, what="a second stream")
        dialer.stop()


async def test_a_killed_control_plane_is_noticed_at_once_and_found_again(place: Place):
    directory = place.server_files.authority.parent
    files = place.issue("node", "gpu-01")
    with process("server", 0, directory, 5.0) as server:
        await wait_until(lambda: server.lines)
        port = int(server.lines[0].split()[1])
        with process("agent", f"127.0.0.1:{port}", files.authority.parent, 5.0) as agent:
            await wait_until(lambda: "welcome" in agent.lines)
            server.signal(signal.SIGKILL)
            await wait_until(lambda: any("lost" in line for line in agent.lines), 2)
            with process("server", port, directory, 5.0):
                await wait_until(lambda: agent.lines.count("welcome") == 2)


async def test_a_peer_that_registers_and_says_nothing_is_noticed(place: Place):
    place.control.interval = INTERVAL
    async with bad_peer(place) as peer:
        await peer.register()
        began = time.monotonic()
        await wait_until(lambda: place.control.ends)
        assert time.monotonic() - began < BOUND
        assert "lost" in await peer.status()


async def test_a_peer_that_never_registers_is_noticed(tmp_path):
    place = Place(tmp_path, silence=0.5)
    await place.start()
    async with bad_peer(place):
        await wait_until(lambda: place.control.ends)
        assert "no message from it for 0.5 s" in place.control.ends[0]
    await place.end()


async def test_a_severed_transport_leads_to_a_second_stream_and_no_stale_one(place: Place):
    peer = Peer()
    dialer = place.dialer(place.issue("node", "gpu-01"))
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    for welcomes in (1, 2):
        assert peer.welcomes() == welcomes
        peer.stream._transport.abort()
        await another_welcome(peer, welcomes)
    assert dialer.opened == 3
    assert len(place.control.streams) == 3
    assert [stream.ended for stream in place.control.streams] == [True, True, False]
    assert peer.ends == [f"{place.address}: the connection was lost"] * 2
    assert len(place.server._streams) == 1


async def another_welcome(peer: Peer, before: int) -> None:
    await wait_until(lambda: peer.welcomes() == before + 1)


async def test_a_transport_that_the_control_plane_severs_leads_to_a_second_stream(place: Place):
    peer = Peer()
    dialer = place.dialer(place.issue("node", "gpu-01"))
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    place.control.streams[0].abort("a test")
    await wait_until(lambda: peer.welcomes() == 2)
    assert dialer.opened == 2
    assert "a test" in place.control.ends[0]


async def test_streams_that_are_cut_at_once_are_dialled_ever_more_slowly(place: Place):
    place.control.broken = KeyError("a bug")
    delays = []

    class Recorded(Backoff):
        def delay(self, attempt, rng):
            delays.append(attempt)
            return 0.0

    dialer = place.dialer(place.issue("node", "gpu-01"))
    dialer._backoff = Recorded(first=5.0)
    peer = Peer()
    place.run(dialer, peer)
    await wait_until(lambda: len(delays) >= 4)
    assert delays[:4] == [1, 2, 3, 4]
    assert dialer.opened >= 4
    dialer.stop()


async def test_a_stream_that_lived_makes_the_first_wait_short_again(place: Place):
    delays = []

    class Recorded(Backoff):
        def delay(self, attempt, rng):
            delays.append(attempt)
            return 0.0

    dialer = place.dialer(
        place.issue("node", "gpu-01"), addresses=["127.0.0.1:1", "127.0.0.1:1", place.address]
    )
    dialer._backoff = Recorded(first=0.0)
    peer = Peer()
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    peer.stream._transport.abort()
    await wait_until(lambda: len(delays) >= 3)
    assert delays[2] == 0
    dialer.stop()


async def test_the_next_address_is_tried_when_one_does_not_answer(place: Place):
    dialer = place.dialer(place.issue("node", "gpu-01"), addresses=["127.0.0.1:1", place.address])
    peer = Peer()
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    assert dialer.address == place.address
