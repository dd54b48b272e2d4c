"""Asking gateways for their requests in flight: who is asked, who is waited for, what is said."""

import asyncio

import pytest

from llmgw.control.live import ANSWERS_WITHIN, Answers
from llmgw.control.plane import Plane
from llmgw.model.link import GatewayMessage
from llmgw.model.live import (
    REQUESTS,
    AskRequests,
    CancelRequests,
    LiveRequest,
    RequestsEnded,
    RequestsSeen,
    Silent,
)
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened
from tests.unit.control.calling import Caller

ONE = LiveRequest(
    id="req-a-1", key="k", key_name="lab", model="m", path="/v1/x", streams=True,
    state="streaming", age=2.0,
)  # fmt: skip
ASK = AskRequests(ask="", limit=10, key="lab")


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock, MemoryStore())


async def gateway(plane: Plane, name: str, *features: str) -> Caller:
    return await Caller(plane, name, serial=name).register(features=features)


def asked(caller: Caller) -> list[AskRequests]:
    return [one.ask_requests for one in caller.stream.sent if one.ask_requests is not None]


def told(caller: Caller) -> list[CancelRequests]:
    return [one.cancel_requests for one in caller.stream.sent if one.cancel_requests is not None]


async def answer(caller: Caller, ask: str, silent: int = 0) -> None:
    seen = RequestsSeen(
        gateway=caller.name, ask=ask, total=3, matching=1, requests=(ONE,), silent=silent
    )
    caller.stream.say(GatewayMessage(requests_seen=seen))
    await settle()


async def begin(plane: Plane, only: str | None = None) -> "asyncio.Task[Answers]":
    asking = asyncio.ensure_future(plane.gateways.live.seen(ASK, only))
    await settle()
    return asking


async def test_every_gateway_that_can_tell_is_asked_and_waited_for(plane: Plane) -> None:
    async with opened(plane):
        one, other = await gateway(plane, "g1", REQUESTS), await gateway(plane, "g2", REQUESTS)
        asking = await begin(plane)
        (question,) = asked(one)
        assert (question.key, question.limit) == ("lab", 10)
        assert asked(other) == [question]
        await answer(one, question.ask)
        assert not asking.done()
        await answer(other, "another question")
        assert not asking.done()
        await answer(other, question.ask)
        answers = await asking
        assert set(answers.by_gateway) == {"g1", "g2"}
        assert answers.silent == ()


async def test_an_older_gateway_is_not_asked_and_it_is_said_that_its_requests_are_missing(
    plane: Plane,
) -> None:
    async with opened(plane):
        new, old = await gateway(plane, "g1", REQUESTS), await gateway(plane, "old", "loads")
        asking = await begin(plane)
        await answer(new, asked(new)[0].ask)
        answers = await asking
        assert asked(old) == []
        words = "it runs 0.1.0, which can't tell of its requests"
        assert answers.silent == (Silent(gateway="old", words=words),)


async def test_a_gateway_that_does_not_answer_is_waited_for_no_longer_than_a_while(
    plane: Plane, clock: FakeClock
) -> None:
    async with opened(plane):
        caller = await gateway(plane, "g1", REQUESTS)
        asking = await begin(plane)
        await clock.advance(ANSWERS_WITHIN - 0.1)
        assert not asking.done()
        await clock.advance(0.2)
        answers = await asking
        assert answers.silent == (Silent(gateway="g1", words="it did not answer within 3 s"),)
        await answer(caller, asked(caller)[0].ask)  # too late: it is dropped
        assert plane.gateways.live._waiting == {}


async def test_a_gateway_that_leaves_is_not_waited_for_and_one_that_is_away_is_named(
    plane: Plane,
) -> None:
    async with opened(plane):
        away, leaves = await gateway(plane, "g0", REQUESTS), await gateway(plane, "g1", REQUESTS)
        away.stream.sever()
        await away.task
        asking = await begin(plane)
        leaves.stream.sever()
        answers = await asking
        assert [(one.gateway, one.words) for one in answers.silent] == [
            ("g0", "it is not connected"),
            ("g1", "it is not connected"),
        ]


async def test_workers_that_are_silent_are_told_with_their_gateway(plane: Plane) -> None:
    async with opened(plane):
        caller = await gateway(plane, "g1", REQUESTS)
        asking = await begin(plane)
        await answer(caller, asked(caller)[0].ask, silent=2)
        answers = await asking
        assert answers.silent == (Silent(gateway="g1", words="2 of its workers did not answer"),)
        assert set(answers.by_gateway) == {"g1"}


async def test_one_gateway_alone_is_asked_when_it_is_named(plane: Plane) -> None:
    async with opened(plane):
        one, other = await gateway(plane, "g1", REQUESTS), await gateway(plane, "g2", REQUESTS)
        asking = await begin(plane, "g2")
        assert asked(one) == []
        await answer(other, asked(other)[0].ask)
        answers = await asking
        assert (set(answers.by_gateway), answers.silent) == ({"g2"}, ())


async def test_without_a_gateway_nothing_is_waited_for(plane: Plane) -> None:
    async with opened(plane):
        answers = await plane.gateways.live.seen(ASK)
        assert (answers.by_gateway, answers.silent) == ({}, ())


async def test_requests_are_ended_wherever_they_are(plane: Plane) -> None:
    async with opened(plane):
        caller = await gateway(plane, "g1", REQUESTS)
        ending = asyncio.ensure_future(plane.gateways.live.end(("req-a-1", "x"), "no more"))
        await settle()
        (cancel,) = told(caller)
        assert (cancel.ids, cancel.words) == (("req-a-1", "x"), "no more")
        ended = RequestsEnded(gateway="g1", ask=cancel.ask, ids=("req-a-1",))
        caller.stream.say(GatewayMessage(requests_ended=ended))
        answers = await ending
        assert answers.by_gateway["g1"] == ended
