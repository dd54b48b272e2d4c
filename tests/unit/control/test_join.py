"""One-time tokens: bound to a role and an id, used once, refused in words that tell nothing."""

import pytest

from llmgw.base.errors import LlmgwError, Refused, Unreadable
from llmgw.control.plane import Plane
from llmgw.link.enrol import TokenText, make_key_and_csr
from llmgw.link.own import read_certificate
from llmgw.model.keys import JoinToken
from llmgw.model.link import JoinAnswer, JoinRequest
from tests.fakes.clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened

CLUSTER = "llmgw"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


async def join(plane: Plane, text: str, role: str = "node", subject: str = "n1") -> JoinAnswer:
    token = TokenText.parse(text)
    _, csr = make_key_and_csr(role, subject, CLUSTER)
    request = JoinRequest(token=token.id, secret=token.secret.reveal(), csr_pem=csr)
    return await plane.joining.join(request, "10.0.0.7:1")


async def test_a_token_is_traded_for_a_certificate_of_its_role_and_id(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        record, text = await plane.join_token("node", "n1", actor="ada")
        assert TokenText.parse(text).authority == plane.authority.sha256
        answer = await join(plane, text)
        assert (answer.role, answer.subject, answer.cluster) == ("node", "n1", CLUSTER)
        serial = format(read_certificate(answer.certificate_pem, "").serial_number, "x")
        assert store.certificates[serial].subject == "n1"
        assert store.join_tokens[record.id].used is not None
        assert (await plane.joining.authority()).authority_pem == answer.authority_pem
        assert text not in repr(store.__dict__)


async def test_a_token_is_used_once(plane: Plane) -> None:
    async with opened(plane):
        _, text = await plane.join_token("node", "n1", actor="ada")
        await join(plane, text)
        with pytest.raises(Refused, match="for node n1 was used already"):
            await join(plane, text)


async def test_a_token_ends(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        _, text = await plane.join_token("node", "n1", actor="ada")
        await clock.advance(3601)
        with pytest.raises(Refused, match="for node n1 has ended") as refused:
            await join(plane, text)
        assert refused.value.hint == "make a new one: llmgw ctl node token n1"


async def test_an_unknown_token_and_a_wrong_secret_are_told_apart_by_nobody(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        record, text = await plane.join_token("node", "n1", actor="ada")
        words: list[str] = []
        for wrong in (text.replace(record.id, "0" * len(record.id)), text[:-4] + "AAAA"):
            with pytest.raises(Refused) as refused:
                await join(plane, wrong)
            words.append(refused.value.message)
        assert words[0] == words[1]
        assert store.join_tokens[record.id].used is None
        await join(plane, text)


@pytest.mark.parametrize(
    ("role", "subject"), [("node", "n2"), ("gateway", "n1"), ("server", "n1"), ("admin", "n1")]
)
async def test_a_token_gives_no_other_role_and_no_other_id_and_is_not_used_up(
    plane: Plane, store: MemoryStore, role: str, subject: str
) -> None:
    async with opened(plane):
        record, text = await plane.join_token("node", "n1", actor="ada")
        with pytest.raises(Refused, match="the signing request is for"):
            await join(plane, text, role, subject)
        assert store.join_tokens[record.id].used is None
        assert store.certificates == {}


async def test_a_role_that_opens_everything_is_never_given_by_token(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with opened(plane):
        for role in ("server", "admin"):
            with pytest.raises(Refused, match="not given by token"):
                await plane.join_token(role, "cp-2", actor="ada")
        with pytest.raises(Unreadable, match="no such role"):
            await plane.join_token("root", "x", actor="ada")
        # One that got into the store all the same, by an older or a foreign hand.
        record, text = await plane.join_token("gateway", "g1", actor="ada")
        forged = JoinToken(
            id=record.id,
            sha256=record.sha256,
            role="server",
            subject="g1",
            expires=record.expires,
        )
        store.join_tokens[record.id] = forged
        with pytest.raises(Refused, match="'server' is not given by token"):
            await join(plane, text, "server", "g1")


LONG = "n" * 9000


@pytest.mark.parametrize("subject", ["", "N1", "../n1", "-n1", "a b", "n" * 254, LONG, "n1\n"])
async def test_an_id_is_like_a_host_name(plane: Plane, subject: str) -> None:
    async with opened(plane):
        with pytest.raises(Unreadable, match="can't be the id of a node") as caught:
            await plane.join_token("node", subject, actor="ada")
        assert len(caught.value.message) < 100
        assert (caught.value.hint or "").startswith("an id is 1 to 253 of a-z")


async def test_rubbish_instead_of_a_request_uses_nothing_up(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        record, text = await plane.join_token("node", "n1", actor="ada")
        token = TokenText.parse(text)
        request = JoinRequest(token=token.id, secret=token.secret.reveal(), csr_pem="rubbish")
        with pytest.raises(LlmgwError, match="not a certificate signing request"):
            await plane.joining.join(request, "10.0.0.7:1")
        assert store.join_tokens[record.id].used is None
        told = [event.words for event in plane.events.recent() if event.kind == "join"]
        assert len(told) == 1
        assert token.secret.reveal() not in told[0]


async def test_a_flood_of_refusals_fills_neither_the_store_nor_the_view(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        _, text = await plane.join_token("node", "n1", actor="ada")
        await join(plane, text)

        async def refused(times: int) -> list[str]:
            for _ in range(times):
                with pytest.raises(Refused):
                    await join(plane, text)
            return [one.words for one in plane.events.recent() if "could not join" in one.words]

        assert len(await refused(500)) == 10
        await clock.advance(61)
        told = await refused(3)
        assert len(told) == 13
        assert told[10].endswith("was used already (490 more refusals were not told)")
        assert told[11].endswith("was used already")
