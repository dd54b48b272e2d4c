"""Records go both ways over mTLS, and a stream ends in order."""

import asyncio
from typing import Any

from llmgw.link.dial import Dialer
from llmgw.link.identity import uri_of
from llmgw.link.server import LinkServer
from llmgw.model.commands import Command, LogLines, ReadLogs
from llmgw.model.device import DeviceSample
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import AgentControl, AgentMessage, GatewayMessage, Ping, Pong
from llmgw.model.node import Heartbeat, Register
from tests.flow.link.place import Peer, Place
from tests.waiting import wait_until


async def connected(place: Place, peer: Peer | None = None) -> tuple[Dialer, Peer]:
    session = peer or Peer()
    dialer = place.dialer(place.issue("node", session.node))
    place.run(dialer, session)
    await wait_until(session.welcomes)
    return dialer, session


async def test_an_agent_registers_and_is_welcomed(place):
    dialer, _ = await connected(place)
    assert dialer.state == f"connected to {place.address}"
    assert (dialer.opened, dialer.address) == (1, place.address)
    stream = place.control.streams[0]
    assert str(stream.identity) == "node gpu-01"
    assert stream.identity.cluster == "north"
    assert stream.peer.startswith("127.0.0.1:")


async def test_a_gateway_registers_at_its_own_service(place):
    heard: list[Any] = []

    async def session(stream):
        stream.send(GatewayMessage(register=GatewayRegister(gateway="gw-1", workers=2)))
        async for message in stream:
            heard.append(message)  # noqa: PERF401 -- looked at while it grows

    place.run(place.dialer(place.issue("gateway", "gw-1"), "gateway"), session)
    await wait_until(lambda: heard)
    assert heard[0].welcome.server == "head"
    assert place.control.heard[0].register.workers == 2


async def test_a_heartbeat_keeps_absent_and_zero_apart(place):
    _, peer = await connected(place)
    sample = DeviceSample(uuid="GPU-1", busy_percent=0.0)
    beat = Heartbeat(sequence=1, devices=(sample,), weights=())
    peer.stream.send(AgentMessage(heartbeat=beat))
    await wait_until(lambda: place.control.heard[-1].heartbeat)
    assert place.control.heard[-1].heartbeat == beat


async def test_a_command_arrives_as_it_was_sent(place):
    _, peer = await connected(place)
    command = Command(term=3, id="c1", deadline=2.5, request=ReadLogs(lines=7))
    place.control.streams[0].send(AgentControl(command=command))
    await wait_until(lambda: peer.heard[-1].command)
    assert peer.heard[-1].command == command


async def test_pings_are_answered_by_the_link(place):
    await connected(place)
    place.control.streams[0].send(AgentControl(ping=Ping(number=41)))
    await wait_until(lambda: place.control.heard[-1].pong)
    assert place.control.heard[-1].pong == Pong(number=41)


async def test_messages_larger_than_the_window_go_both_ways_at_once_and_in_order(place):
    _, peer = await connected(place)
    text = "x" * (1 << 20)
    for number in range(12):
        lines = LogLines(request=str(number), lines=(text,))
        peer.stream.send(AgentMessage(log_lines=lines))
        request = ReadLogs(source=text)
        command = Command(term=1, id=str(number), deadline=1.0, request=request)
        place.control.streams[0].send(AgentControl(command=command))
    await wait_until(lambda: len(place.control.heard) == 13 and len(peer.heard) == 13, 30)
    up = [message.log_lines.request for message in place.control.heard[1:]]
    down = [message.command.id for message in peer.heard[1:]]
    assert up == down == [str(number) for number in range(12)]


async def test_stopping_says_goodbye_and_ends_streams_in_order(place):
    dialer, peer = await connected(place)
    await place.server.stop("upgrade", reconnect_after=600.0)
    assert place.control.ends == ["clean"]
    await wait_until(lambda: "again in" in dialer.state)
    assert peer.ends == ["goodbye: upgrade"]
    assert "again in 600" in dialer.state


async def test_goodbyes_ask_a_fleet_back_apart(place):
    peers = [Peer(f"gpu-{number}") for number in range(4)]
    for peer in peers:
        await connected(place, peer)
    await place.server.stop("upgrade", reconnect_after=600.0)
    hints = [peer.heard[-1].goodbye.reconnect_after for peer in peers]
    assert len(set(hints)) == 4
    assert min(hints) == 600.0


async def test_a_peer_whose_session_returns_is_seen_to_leave_cleanly(place):
    leave = asyncio.Event()

    async def session(stream):
        stream.send(AgentMessage(register=Register(node="gpu-01")))
        await leave.wait()

    dialer = place.dialer(place.issue("node", "gpu-01"))
    place.run(dialer, session)
    await wait_until(lambda: place.control.heard)
    dialer.stop()
    leave.set()
    await wait_until(lambda: place.control.ends)
    assert place.control.ends == ["clean"]
    assert dialer.state == "stopped"


async def test_what_was_queued_before_a_close_still_arrives(place):
    _, peer = await connected(place)
    stream = place.control.streams[0]
    for number in range(100):
        stream.send(AgentControl(ping=Ping(number=number)))
    await stream.close()
    await wait_until(lambda: peer.ends)
    assert peer.ends[0] == "clean"
    assert [m.ping.number for m in peer.heard if m.ping] == list(range(100))
    stream.send(AgentControl(ping=Ping(number=100)))  # nothing, and no error
    assert stream.ended


async def test_stopping_a_dialer_ends_its_open_stream(place):
    dialer, peer = await connected(place)
    dialer.stop()
    await wait_until(lambda: dialer.state == "stopped")
    assert peer.ends == ["clean"]
    await wait_until(lambda: place.control.ends == ["clean"])


async def test_cancelling_a_dialer_cuts_its_stream(place):
    peer = Peer()
    dialer = place.dialer(place.issue("node", "gpu-01"))
    task = asyncio.create_task(dialer.run(peer))
    await wait_until(peer.welcomes)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    await wait_until(lambda: place.control.ends)


async def test_plaintext_works_on_loopback_with_a_claimed_name(place):
    control = place.control
    server = LinkServer(
        None,
        on_agent=control.agent,
        on_gateway=control.gateway,
        on_join=control,
        clock=place.clock,
        silence=5.0,
    )
    port = await server.start("127.0.0.1", 0)
    dialer = place.dialer(
        None, addresses=[f"127.0.0.1:{port}"], claim=uri_of("north", "node", "gpu-01")
    )
    peer = Peer()
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    assert str(control.streams[0].identity) == "node gpu-01"
    await server.stop("done")
