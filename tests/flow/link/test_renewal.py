"""Certificates are renewed over a live stream, which goes on; one that ends takes it along."""

import time
from dataclasses import replace

import pytest

from llmgw.base.errors import Refused
from llmgw.link.enrol import keep, make_key_and_csr, own_certificate
from llmgw.link.identity import Identity
from llmgw.model.link import AgentControl, AgentMessage, CertificateIssued, CertificateRequest
from llmgw.pki.authority import Authority
from tests.fakes.clock import FakeClock
from tests.flow.link.place import Peer, Place
from tests.waiting import wait_until

MINUTE = 60.0


@pytest.fixture
async def minute(tmp_path):
    """Return a cluster whose clock a test moves; its silences are long, its certificates short."""
    place = Place(tmp_path, clock=FakeClock(now=time.time()), silence=1e6)
    await place.start()
    yield place
    await place.end()


async def connected(place: Place) -> Peer:
    peer = Peer()
    place.run(place.dialer(place.issue("node", "gpu-01", lifetime=MINUTE)), peer)
    await wait_until(peer.welcomes)
    return peer


async def renew(place: Place, peer: Peer) -> Identity:
    """Renew as agent and control plane do, over the stream."""
    stream, theirs = peer.stream, place.control.streams[0]
    key, csr = make_key_and_csr("node", "gpu-01", "north")
    stream.send(AgentMessage(certificate_request=CertificateRequest(csr_pem=csr)))
    asked = await wait_until(lambda: place.control.heard[-1].certificate_request)
    now = place.clock.now()
    signed = place.authority.sign(
        asked.csr_pem, role="node", subject="gpu-01", now=now, lifetime=MINUTE
    )
    authority = place.authority.certificate_pem
    issued = CertificateIssued(certificate_pem=signed.certificate_pem, authority_pem=authority)
    theirs.send(AgentControl(certificate=issued))
    theirs.renewed(
        replace(theirs.identity, serial=signed.serial, ends=signed.ends, begins=signed.begins)
    )
    got = await wait_until(lambda: peer.heard[-1].certificate)
    directory = place.issue_of("node", "gpu-01").authority.parent
    own = keep(directory, key, got.certificate_pem, got.authority_pem)
    return own.identity


async def test_a_stream_ends_with_its_peers_certificate(minute):
    peer = await connected(minute)
    await minute.clock.advance(MINUTE - 2)
    assert not minute.control.streams[0].ended
    await minute.clock.advance(2)
    await wait_until(lambda: minute.control.ends)
    assert "its certificate ended" in minute.control.ends[0]
    await wait_until(lambda: peer.ends)


async def test_a_renewed_stream_outlives_the_first_certificate_and_ends_with_the_last(minute):
    peer = await connected(minute)
    first = minute.control.streams[0].identity
    await minute.clock.advance(MINUTE * 2 / 3)
    identity = await renew(minute, peer)
    assert identity.serial != first.serial
    assert minute.control.streams[0].identity == identity
    await minute.clock.advance(MINUTE / 2)
    assert minute.clock.now() > first.ends
    assert not minute.control.streams[0].ended
    assert peer.ends == []
    await minute.clock.advance(MINUTE / 2)
    await wait_until(lambda: minute.control.ends)


async def test_a_wall_clock_that_jumps_is_noticed_with_the_next_look(minute):
    await connected(minute)
    stream = minute.control.streams[0]
    stream.expect_every(2.0)
    minute.clock.jump(3600)
    await minute.clock.advance(6)
    await wait_until(lambda: minute.control.ends)


async def test_the_next_dial_uses_the_renewed_certificate(place):
    peer = Peer()
    files = place.issue("node", "gpu-01", lifetime=MINUTE)
    dialer = place.dialer(files)
    place.run(dialer, peer)
    await wait_until(peer.welcomes)
    old = place.control.streams[0].identity
    await renew(place, peer)
    peer.stream._transport.abort()
    await wait_until(lambda: peer.welcomes() == 2)
    new = place.control.streams[1].identity
    assert new.serial == own_certificate(files).identity.serial != old.serial


async def test_a_certificate_that_is_not_ours_is_not_kept(place):
    files = place.issue("node", "gpu-01")
    before = files.certificate.read_bytes()
    key, csr = make_key_and_csr("node", "gpu-01", "north")
    other_key, _ = make_key_and_csr("node", "gpu-01", "north")
    now = place.clock.now()
    signed = place.authority.sign(csr, role="node", subject="gpu-01", now=now, lifetime=MINUTE)
    authority = place.authority.certificate_pem
    with pytest.raises(Refused, match="for another key"):
        keep(files.authority.parent, other_key, signed.certificate_pem, authority)
    stranger = Authority.create("south", now).certificate_pem
    with pytest.raises(Refused, match="not of the CA beside it"):
        keep(files.authority.parent, key, signed.certificate_pem, stranger)
    assert files.certificate.read_bytes() == before
