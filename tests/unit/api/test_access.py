"""Wrong tries are bounded, and a token that ended opens nothing."""

import pytest
from starlette.applications import Starlette

from llmgw.base.errors import Refused
from llmgw.control.api.access import REFILL_SECONDS, TRIES, Gate, WrongTries
from llmgw.control.api.answer import TurnedAway
from tests.fakes.clock import FakeClock
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client

PEER = "192.0.2.7"


@pytest.fixture
def gate(plane: FakePlane) -> Gate:
    return Gate(plane.tokens, plane.clock)


def refused(gate: Gate, token: str, peer: str | None = PEER) -> TurnedAway:
    with pytest.raises(TurnedAway) as told:
        gate.admit(f"Bearer {token}", peer, "read")
    return told.value


def spend(gate: Gate, peer: str = PEER) -> None:
    for number in range(TRIES):
        assert refused(gate, f"wrong-{number}", peer).status == 401


async def test_after_some_wrong_tries_a_peer_is_not_heard(gate: Gate) -> None:
    spend(gate)
    error = refused(gate, "wrong")
    assert error.status == 429
    assert error.headers == {"Retry-After": "6"}


async def test_a_right_token_is_not_looked_up_for_a_peer_that_guessed(
    gate: Gate, plane: FakePlane, clock: FakeClock
) -> None:
    spend(gate)
    token = plane.tokens_by_role["admin"]
    assert refused(gate, token).status == 429
    await clock.advance(REFILL_SECONDS)
    assert gate.admit(f"Bearer {token}", PEER, "read").name == "the admin token"


async def test_a_token_that_opened_before_still_does(gate: Gate, plane: FakePlane) -> None:
    header = f"Bearer {plane.tokens_by_role['read']}"
    gate.admit(header, PEER, "read")
    spend(gate)
    assert gate.admit(header, PEER, "read").role == "read"


async def test_another_peer_is_heard(gate: Gate, plane: FakePlane) -> None:
    spend(gate)
    gate.admit(f"Bearer {plane.tokens_by_role['read']}", "192.0.2.8", "read")
    assert refused(gate, "wrong", "192.0.2.8").status == 401


async def test_the_addresses_of_one_site_count_as_one(gate: Gate) -> None:
    for number in range(TRIES):
        refused(gate, "wrong", f"2001:db8:1:2::{number:x}")
    assert refused(gate, "wrong", "2001:db8:1:2:ffff::1").status == 429
    assert refused(gate, "wrong", "2001:db8:1:3::1").status == 401
    spend(gate, "::ffff:192.0.2.9")
    assert refused(gate, "wrong", "192.0.2.9").status == 429


async def test_an_unknown_address_counts_as_one_peer(gate: Gate) -> None:
    for _ in range(TRIES):
        refused(gate, "wrong", None)
    assert refused(gate, "wrong", None).status == 429


async def test_tries_come_back_one_by_one(gate: Gate, clock: FakeClock) -> None:
    spend(gate)
    await clock.advance(REFILL_SECONDS)
    assert refused(gate, "wrong").status == 401
    assert refused(gate, "wrong").status == 429
    await clock.advance(REFILL_SECONDS * TRIES * 2)
    spend(gate)
    assert refused(gate, "wrong").status == 429


async def test_a_request_without_a_token_is_no_try(gate: Gate, plane: FakePlane) -> None:
    for _ in range(TRIES * 2):
        with pytest.raises(TurnedAway):
            gate.admit(None, PEER, "read")
    gate.admit(f"Bearer {plane.tokens_by_role['read']}", PEER, "read")


def test_what_is_remembered_of_peers_is_bounded(clock: FakeClock) -> None:
    tries = WrongTries(clock)
    for number in range(4200):
        tries.count(str(number))
    assert len(tries._peers) <= 4096


async def test_a_token_that_ended_or_was_removed_opens_nothing(
    gate: Gate, plane: FakePlane, clock: FakeClock
) -> None:
    token, text = await plane.tokens.make("read", "short", actor="anna", expires_in=60)
    gate.admit(f"Bearer {text}", PEER, "read")
    await clock.advance(60)
    assert refused(gate, text).status == 401
    other, other_text = await plane.tokens.make("read", "other", actor="anna")
    gate.admit(f"Bearer {other_text}", PEER, "read")
    await plane.tokens.remove(other.id, actor="anna")
    assert refused(gate, other_text).status == 401
    assert token.id != other.id


async def test_a_role_that_does_not_suffice_is_no_wrong_try(gate: Gate, plane: FakePlane) -> None:
    header = f"Bearer {plane.tokens_by_role['metrics']}"
    for _ in range(TRIES * 2):
        with pytest.raises(Refused):
            gate.admit(header, PEER, "admin")


async def test_the_answer_says_when_to_come_back(app: Starlette) -> None:
    async with client(app, token="wrong") as http:
        for _ in range(TRIES):
            assert (await http.get("/api/v1/nodes")).status_code == 401
        answer = await http.get("/api/v1/nodes")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "6"
    assert answer.json()["error"]["code"] == "too_many_tries"
