"""A peer that misbehaves loses its own stream, is told why, and costs nothing more."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from llmgw.base.errors import Refused
from llmgw.link import attempt, codec, listen
from llmgw.link.attempt import Attempt
from llmgw.link.connect import connect
from llmgw.link.guard import MESSAGE_LIMIT
from llmgw.link.stream import INBOX, QUEUE_MESSAGES
from llmgw.link.tls import client_context, joining_context
from llmgw.model.commands import Command, LogLines, ReadLogs
from llmgw.model.link import AgentControl, AgentMessage, Pong
from tests.flow.link.bad_peer import REGISTER, bad_peer, framed
from tests.flow.link.place import Peer
from tests.waiting import wait_until


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def still_serves(place) -> bool:
    peer = Peer("gpu-09")
    place.run(place.dialer(place.issue("node", "gpu-09")), peer)
    return await wait_until(peer.welcomes) == 1


async def test_a_message_that_is_too_large_is_refused_before_it_is_read(place):
    async with bad_peer(place) as peer:
        await peer.register()
        before = resident()
        await peer.send(framed(b"x" * 1000, size=(1 << 32) - 1))
        words = await peer.status()
    assert words.startswith("RESOURCE_EXHAUSTED: a message of 4294967295 bytes")
    assert f"{MESSAGE_LIMIT} is the limit" in words
    assert resident() - before < 32 << 20
    await wait_until(lambda: place.control.ends)
    assert await still_serves(place)


async def test_a_message_of_the_limits_size_passes(place):
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    room = MESSAGE_LIMIT - 100
    peer.stream.send(AgentMessage(log_lines=LogLines(request="r", lines=("x" * room,))))
    await wait_until(lambda: place.control.heard[-1].log_lines, 30)
    with pytest.raises(Refused, match="is the limit"):
        peer.stream.send(
            AgentMessage(log_lines=LogLines(request="r", lines=("x" * MESSAGE_LIMIT,)))
        )
    assert peer.ends == []


@pytest.mark.parametrize(
    "data",
    [
        framed(b"\xff"),
        framed(REGISTER[:-1]),
        framed(b"\x0a\x03\x0a\x01\xff"),
        framed(b"nothing of the kind"),
        framed(b"\x0a\x00"[:1]),
    ],
    ids=["varint", "cut", "not utf-8", "text", "tag alone"],
)
async def test_malformed_bytes_end_the_stream_with_words(place, data):
    async with bad_peer(place) as peer:
        await peer.register()
        await peer.send(data)
        words = await peer.status()
    assert words.startswith("INVALID_ARGUMENT: ")
    assert "AgentMessage" in words
    await wait_until(lambda: place.control.ends)
    assert await still_serves(place)


async def test_a_message_that_lacks_what_it_needs_ends_the_stream_with_its_name(place):
    async with bad_peer(place) as peer:
        await peer.register()
        # A shard status whose spec has an adapter without a source.
        await peer.send(framed(b"\x1a\x09\x6a\x07\xb2\x03\x04\x0a\x02ad"))
        words = await peer.status()
    assert "INVALID_ARGUMENT: Adapter came without what it needs: source" in words


async def test_a_compressed_message_is_refused(place):
    async with bad_peer(place) as peer:
        await peer.send(framed(REGISTER, compressed=1))
        assert "INVALID_ARGUMENT: the message is compressed" in await peer.status()


async def test_a_message_that_ends_half_way_is_refused(place):
    async with bad_peer(place) as peer:
        await peer.send(framed(REGISTER)[:-3])
        await peer.raw.end()
        assert "INVALID_ARGUMENT: the message was cut short" in await peer.status()


async def test_a_message_of_a_newer_kind_is_passed_over(place):
    async with bad_peer(place) as peer:
        await peer.register()
        await peer.send(framed(b"\xa2\x01\x02\x08\x01"))  # field 20
        await peer.send(framed(codec.encode(AgentMessage(pong=Pong(number=1)))))
        await wait_until(lambda: len(place.control.heard) == 3)
    assert place.control.heard[1] == AgentMessage()


async def test_a_field_of_the_wrong_wire_type_reaches_nobody_as_another_type(place):
    async with bad_peer(place) as peer:
        await peer.send(framed(b"\x0a\x02\x08\x05"))  # register { node: varint 5 }
        words = await peer.status()
    assert place.control.heard[0].register.node == ""
    assert words.startswith("PERMISSION_DENIED: the certificate is for node gpu-01")


async def test_a_peer_that_does_not_read_loses_its_stream_when_the_queue_is_full(place):
    async with bad_peer(place) as peer:
        await peer.register()
        stream = place.control.streams[0]
        request = ReadLogs(source="x" * 65536)
        sent = 0
        while not stream.ended and sent < 4 * QUEUE_MESSAGES:
            stream.send(
                AgentControl(command=Command(term=1, id="c", deadline=1.0, request=request))
            )
            sent += 1
            await asyncio.sleep(0.001)
        # What the windows of HTTP/2 and TCP take comes on top of the queue.
        assert sent > QUEUE_MESSAGES
        await wait_until(lambda: place.control.ends)
    assert "256 messages wait for it, the queue is full: it does not read" in place.control.ends[0]


async def test_a_queue_is_bounded_in_bytes_too(place):
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    big = AgentMessage(log_lines=LogLines(request="r", lines=("x" * (7 << 20),)))
    for _ in range(20):
        peer.stream.send(big)
    await wait_until(lambda: peer.ends)
    assert "the queue is full" in peer.ends[0]


async def test_a_slow_reader_throttles_its_peer_and_loses_nothing(place):
    place.control.held = asyncio.Event()
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    for number in range(3 * INBOX):
        peer.stream.send(AgentMessage(pong=Pong(number=number)))
    stream = place.control.streams[0]
    await wait_until(stream._inbox.full)
    place.control.held.set()
    await wait_until(lambda: len(place.control.heard) == 3 * INBOX + 1)
    assert [m.pong.number for m in place.control.heard[1:]] == list(range(3 * INBOX))


async def test_a_slow_reader_of_ours_does_not_make_its_peer_dead(place):
    place.control.held = asyncio.Event()
    place.control.interval = 0.05
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    stream = place.control.streams[0]
    for number in range(2 * INBOX):
        peer.stream.send(AgentMessage(pong=Pong(number=number)))
    await wait_until(stream._inbox.full)
    heard = stream._heard
    await wait_until(lambda: stream._heard > heard + 0.3)  # several silences later
    assert not stream.ended
    place.control.held.set()
    await wait_until(lambda: len(place.control.heard) >= 2 * INBOX + 1)


async def test_many_senders_at_once_mix_up_nothing(place):
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)

    async def send(sender: int) -> None:
        for number in range(8):
            lines = (f"{sender}/{number}" + "x" * 200_000,)
            peer.stream.send(AgentMessage(log_lines=LogLines(request=str(sender), lines=lines)))
            await asyncio.sleep(0)

    await asyncio.gather(*(send(sender) for sender in range(16)))
    await wait_until(lambda: len(place.control.heard) == 129, 30)
    for sender in range(16):
        of = [m.log_lines for m in place.control.heard[1:] if m.log_lines.request == str(sender)]
        numbers = [lines.lines[0].partition("x")[0] for lines in of]
        assert numbers == [f"{sender}/{number}" for number in range(8)]


async def test_a_connection_that_carries_nothing_is_cut(place, monkeypatch):
    monkeypatch.setattr(listen, "IDLE_TIMEOUT", 0.2)
    connection = await connect(
        place.address, joining_context(place.authority.certificate_pem), verify=True
    )
    await wait_until(connection._transport.is_closing)
    connection.abort()
    assert await still_serves(place)


async def test_a_stream_outlives_the_limit_for_idle_connections(place, monkeypatch):
    monkeypatch.setattr(listen, "IDLE_TIMEOUT", 0.1)
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    idle = await connect(place.address, client_context(place.issue("node", "gpu-02")))
    await wait_until(idle._transport.is_closing)  # opened later, and cut
    idle.abort()
    assert peer.ends == []


async def test_a_call_that_swallows_its_cancel_is_dropped_and_told(place, monkeypatch, capsys):
    monkeypatch.setattr(attempt, "END_TIMEOUT", 0.1)
    connection = await connect(place.address, client_context(place.issue("node", "gpu-01")))
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    call = Attempt(connection, stubborn())
    await call.end()
    assert "dropped a call that does not end" in capsys.readouterr().out
    release.set()
    assert await call.done(5)


async def test_the_kernel_gives_up_connections_that_nobody_acknowledges(place):
    connection = await connect(place.address, client_context(place.issue("node", "gpu-01")))
    ours = connection._transport.get_extra_info("socket")
    option = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    connection.abort()
    assert option == 15_000
    async with bad_peer(place):
        await wait_until(lambda: place.control.streams)
        theirs = place.control.streams[0]._transport.get_extra_info("socket")
        assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
