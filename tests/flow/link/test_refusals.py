"""Who may not connect is told why, in words that an operator can act on."""

import asyncio

import pytest

from llmgw.base.errors import LlmgwError, Refused, Unreachable, Usage
from llmgw.link.connect import connect
from llmgw.link.enrol import own_certificate
from llmgw.link.server import LinkServer
from llmgw.link.tls import client_context, joining_context, reload, server_context
from llmgw.pki.authority import Authority
from tests.flow.link.place import HOUR, Peer, Place
from tests.waiting import wait_until


async def why(place: Place, files, service="agent", **more) -> str:
    """Return what a dialer says about its first failure."""
    dialer = place.dialer(files, service, **more)
    place.run(dialer, Peer())
    await wait_until(lambda: "again in" in dialer.state, what=dialer.state)
    assert dialer.opened == 0, "no stream was to be opened"
    dialer.stop()
    return dialer.state


async def test_a_gateways_certificate_opens_nothing_of_an_agents(place):
    words = await why(place, place.issue("gateway", "gw-1"))
    assert "the certificate is for gateway gw-1" in words
    assert "takes those of role node alone" in words
    words = await why(place, place.issue("node", "gpu-01"), "gateway")
    assert "the certificate is for node gpu-01" in words
    assert place.control.streams == []


async def test_an_agent_may_speak_for_its_own_id_alone(place):
    dialer = place.dialer(place.issue("node", "gpu-01"))
    peer = Peer("gpu-02")
    place.run(dialer, peer)
    await wait_until(lambda: peer.ends)
    assert "the certificate is for node gpu-01, and the message says 'gpu-02'" in peer.ends[0]
    await wait_until(lambda: "start it as gpu-01" in dialer.state)
    assert peer.welcomes() == 0


async def test_a_certificate_that_ended_is_told_so(place):
    files = place.issue("node", "gpu-01", lifetime=60.0, ago=120.0)
    assert "this machine's certificate ended; join again" in await why(place, files)


async def test_a_certificate_of_another_clusters_is_told_so(place):
    other = Authority.create("south", place.clock.now())
    files = place.issue("node", "gpu-01", authority=other)
    assert "of another cluster's CA" in await why(place, files)
    # It trusts this cluster and shows the other's certificate.
    files.authority.write_text(place.authority.certificate_pem)
    assert "this machine's certificate is of another cluster's CA" in await why(place, files)


async def test_a_denied_certificate_is_refused_by_name(place):
    files = place.issue("node", "gpu-01")
    place.denied.add(serial_of(files))
    words = await why(place, files)
    assert "the certificate of node gpu-01 was withdrawn" in words
    assert "join again with a new token" in words


async def test_a_machine_without_a_certificate_can_do_nothing_but_join(place):
    context = joining_context(place.authority.certificate_pem)
    dialer = place.dialer(None)
    dialer._context = lambda: context
    place.run(dialer, Peer())
    await wait_until(lambda: "again in" in dialer.state)
    assert "no certificate was shown; join the cluster first" in dialer.state


async def test_nobody_listening_is_told_with_the_address(place):
    await place.server.stop("gone")
    words = await why(place, place.issue("node", "gpu-01"))
    assert f"{place.address}: connection refused" in words
    assert "is `llmgw server` running there" in words


async def test_a_name_that_does_not_resolve_is_told(place):
    words = await why(place, place.issue("node", "gpu-01"), addresses=["head.invalid:7442"])
    assert "head.invalid:7442: the name 'head.invalid' can't be resolved" in words


async def test_no_address_is_told(place):
    words = await why(place, place.issue("node", "gpu-01"), addresses=[])
    assert "no control plane's address is known" in words


@pytest.mark.parametrize("address", ["head", "head:", ":7442", "head:0", "head:x", "head:70000"])
async def test_what_is_no_address_is_refused(place, address):
    with pytest.raises(Usage, match="is not an address"):
        await connect(address, None)


async def test_what_does_not_speak_tls_is_told(place):
    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    words = await why(place, place.issue("node", "gpu-01"), addresses=[f"127.0.0.1:{port}"])
    assert "does not speak TLS 1.3" in words
    assert "is it the link's port (7442)" in words
    other.close()


async def test_what_accepts_and_says_nothing_is_given_up(place):
    async def silence(reader, writer):
        await reader.read()
        writer.close()

    other = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    context = client_context(place.issue("node", "gpu-01"))
    with pytest.raises(Unreachable, match=r"no answer within 0.3 s"):
        await connect(f"127.0.0.1:{port}", context, timeout=0.3)
    other.close()


async def test_an_address_that_the_certificate_does_not_cover_is_told(place):
    everywhere = place.new_server()
    port = await everywhere.start("0.0.0.0", 0)
    files = place.issue("node", "gpu-01")
    words = await why(place, files, addresses=[f"127.0.0.2:{port}"])
    assert "certificate does not cover '127.0.0.2'" in words
    assert "`addresses`" in words
    await everywhere.stop("done")


async def test_a_name_that_the_certificate_covers_will_do(place):
    peer = Peer()
    dialer = place.dialer(place.issue("node", "gpu-01"), addresses=[f"localhost:{place.port}"])
    place.run(dialer, peer)
    await wait_until(peer.welcomes)


async def test_a_nodes_certificate_does_not_pass_for_a_control_planes(place):
    poser = place.new_server(server_context(place.issue("node", "evil", addresses=["127.0.0.1"])))
    port = await poser.start("127.0.0.1", 0)
    files = place.issue("node", "gpu-01")
    words = await why(place, files, addresses=[f"127.0.0.1:{port}"])
    assert "is no control plane's" in words
    await poser.stop("done")


async def test_a_control_planes_certificate_that_ended_is_told(place):
    old = place.issue("server", "old", lifetime=60.0, ago=120.0)
    server = place.new_server(server_context(old))
    port = await server.start("127.0.0.1", 0)
    files = place.issue("node", "gpu-01")
    words = await why(place, files, addresses=[f"127.0.0.1:{port}"])
    assert "the control plane's certificate ended; compare the clocks" in words
    await server.stop("done")


async def test_plaintext_is_refused_anywhere_but_on_loopback(place):
    control = place.control
    server = LinkServer(
        None,
        on_agent=control.agent,
        on_gateway=control.gateway,
        on_join=control,
        clock=place.clock,
        silence=5.0,
    )
    with pytest.raises(Usage, match="for loopback alone"):
        await server.start("0.0.0.0", 0)
    with pytest.raises(Usage, match="for loopback alone"):
        await connect("10.0.0.1:7442", None)
    port = await server.start("localhost", 0)
    words = await why(place, None, addresses=[f"127.0.0.1:{port}"])
    assert "does not say who it is" in words
    await server.stop("done")


async def test_a_port_in_use_is_one_line_that_says_so(place):
    with pytest.raises(Usage, match=f"{place.address}: can't be listened on: Address already"):
        await place.new_server().start("127.0.0.1", place.port)


async def test_a_session_that_fails_ends_its_own_stream_alone(place):
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)

    place.control.broken = KeyError("a bug")
    second = Peer("gpu-02")
    place.run(place.dialer(place.issue("node", "gpu-02")), second)
    await wait_until(lambda: second.ends)
    words = second.ends[0]
    assert "the control plane failed on this stream" in words
    assert "a bug" not in words
    assert peer.ends == []


async def test_a_renewed_certificate_of_the_control_plane_is_used_without_a_restart(place):
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)
    old = serial_of(place.server_files)
    files = place.issue("server", "head", addresses=["head.example"])
    reload(place.context, files)
    connection = await connect(place.address, client_context(place.issue("node", "gpu-02")))
    shown = connection._transport.get_extra_info("ssl_object").getpeercert()
    connection.abort()
    assert int(shown["serialNumber"], 16) != int(old, 16)
    assert ("DNS", "head.example") in shown["subjectAltName"]
    assert peer.ends == []


async def test_a_reload_of_something_unusable_changes_nothing(place):
    broken = place.issue("server", "other")
    broken.authority.write_text("nothing")
    with pytest.raises(LlmgwError, match="not a certificate"):
        reload(place.context, broken)
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01")), peer)
    await wait_until(peer.welcomes)


def serial_of(files) -> str:
    return own_certificate(files).identity.serial


async def test_an_error_of_the_context_is_told_like_any_other(place):
    def context():
        raise Refused("identity.pem: mode 644 lets others in", hint="run: chmod 600 identity.pem")

    dialer = place.dialer(None)
    dialer._context = context
    place.run(dialer, Peer())
    await wait_until(lambda: "run: chmod 600" in dialer.state)


def test_certificates_of_a_minute_are_valid_now(tmp_path):
    place = Place(tmp_path)
    own = own_certificate(place.issue("node", "gpu-01", lifetime=60.0))
    now = place.clock.now()
    assert own.begins < now < own.renew_at < own.identity.ends <= now + 60.0
    assert own.identity.ends < now + HOUR
