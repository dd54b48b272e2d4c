"""A machine joins with a one-time token, and sends its secret to nobody but the token's cluster."""

import pytest

from llmgw.base.errors import Refused, Unreachable, Unreadable
from llmgw.link import codec
from llmgw.link.attempt import ask
from llmgw.link.connect import connect
from llmgw.link.enrol import TokenText, join
from llmgw.link.tls import client_context
from llmgw.model.link import JoinAnswer, JoinRequest
from llmgw.pki.authority import Authority
from tests.flow.link.place import Peer, Place
from tests.waiting import wait_until


async def test_a_machine_joins_and_connects_with_what_it_got(place, tmp_path):
    token = TokenText.parse(place.token())
    own = await join(place.address, token, tmp_path / "tls")
    assert str(own.identity) == "node gpu-01"
    assert own.identity.cluster == "north"
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "tls").iterdir()} == {0o600}
    peer = Peer()
    place.run(place.dialer(own.files), peer)
    await wait_until(peer.welcomes)
    assert place.control.streams[0].identity.serial == own.identity.serial


async def test_a_gateway_joins_with_a_gateways_token(place, tmp_path):
    token = TokenText.parse(place.token("gateway", "gw-1"))
    own = await join(place.address, token, tmp_path, role="gateway", subject="gw-1")
    assert str(own.identity) == "gateway gw-1"


async def test_a_wrong_secret_is_refused(place, tmp_path):
    text = place.token()
    token = TokenText.parse(text[:-4] + ("aaaa" if not text.endswith("aaaa") else "bbbb"))
    with pytest.raises(Refused, match=r"the token is not known") as refused:
        await join(place.address, token, tmp_path)
    assert refused.value.hint == "make a new one"
    assert place.address in refused.value.message
    assert list(tmp_path.glob("*.pem")) == []


async def test_a_token_is_used_once(place, tmp_path):
    token = TokenText.parse(place.token())
    await join(place.address, token, tmp_path / "a")
    with pytest.raises(Refused, match="the token was used before"):
        await join(place.address, token, tmp_path / "b")
    assert not (tmp_path / "b").exists()


async def test_a_token_that_ended_is_refused(place, tmp_path):
    token = TokenText.parse(place.token(lifetime=-1.0))
    with pytest.raises(Refused, match="the token ended"):
        await join(place.address, token, tmp_path)


async def test_another_clusters_token_is_refused_before_the_secret_is_sent(place, tmp_path):
    other = Place(tmp_path / "other")
    token = TokenText.parse(other.token())
    with pytest.raises(Refused, match="is of another cluster than the token") as refused:
        await join(place.address, token, tmp_path / "tls")
    assert "nothing secret was sent" in str(refused.value.hint)
    assert other.authority.sha256[:16] in refused.value.message
    assert place.authority.sha256[:16] in refused.value.message
    assert place.control.asked == []


async def test_one_that_shows_the_right_ca_without_its_key_gets_no_secret(place, tmp_path):
    # A stranger in the middle knows the CA, which is no secret, and answers with it.
    stranger = Place(tmp_path / "stranger")
    stranger.control.shown = place.authority
    await stranger.start()
    token = TokenText.parse(place.token())
    with pytest.raises(Refused, match="of another cluster's CA"):
        await join(stranger.address, token, tmp_path / "tls")
    assert stranger.control.asked == []
    await stranger.end()


async def test_a_token_for_another_machine_does_not_rename_this_one(place, tmp_path):
    token = TokenText.parse(place.token(subject="gpu-02"))
    with pytest.raises(Refused, match=r"for llmgw://north/node/gpu-01, .*node/gpu-02"):
        await join(place.address, token, tmp_path, role="node", subject="gpu-01")
    assert place.tokens[token.id].used is None


async def test_nobody_answering_is_told(place, tmp_path):
    token = TokenText.parse(place.token())
    await place.server.stop("gone")
    with pytest.raises(Unreachable, match="connection refused"):
        await join(place.address, token, tmp_path)


async def test_a_bug_in_joining_tells_the_machine_nothing_of_it(place, tmp_path):
    place.control.broken = KeyError("inner")
    with pytest.raises(Unreachable, match="the control plane failed on this request") as told:
        await join(place.address, TokenText.parse(place.token()), tmp_path)
    assert "inner" not in told.value.message


async def test_a_joining_request_that_is_too_large_is_refused(place):
    connection = await connect(place.address, client_context(place.issue("node", "gpu-01")))
    data = codec.encode(JoinRequest(token="t", secret="s", csr_pem="x" * 70_000))
    with pytest.raises(Refused, match="65536 is the limit"):
        await ask(connection, codec.JOIN, data, JoinAnswer, 5.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "llmgw1.abc.d.e",
        "llmgw2." + "a" * 64 + ".id.secret",
        "llmgw1." + "a" * 64 + ".id",
        "llmgw1." + "g" * 64 + ".id.secret",
    ],
)
def test_what_is_no_token_is_refused_without_quoting_it(text):
    with pytest.raises(Unreadable, match="not a join token") as refused:
        TokenText.parse(text)
    assert "secret" not in refused.value.message
    assert "was it cut when copied" in str(refused.value.hint)


def test_a_token_does_not_show_its_secret():
    token = TokenText.parse("llmgw1." + "a" * 64 + ".id.s3cret\n")
    assert "s3cret" not in repr(token)
    assert token.secret.reveal() == "s3cret"


def test_authorities_differ_in_their_hash():
    assert Authority.create("a", 0.0).sha256 != Authority.create("a", 0.0).sha256
