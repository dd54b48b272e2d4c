"""One question to all workers, one answer to the control plane."""

from typing import cast

import pytest

from llmgw.gateway.frames import Inquiry, Told
from llmgw.gateway.inquiries import OPEN_MOST, WITHIN, Inquiries
from llmgw.gateway.places import Place
from llmgw.model.link import GatewayMessage
from llmgw.model.live import (
    AskRequests,
    CancelRequests,
    LiveRequest,
    RequestsEnded,
    RequestsSeen,
)
from tests.fakes.clock import FakeClock

ASK = AskRequests(ask="q1", limit=2)
CANCEL = CancelRequests(ask="c1", ids=("a", "b"), words="no")


class Worker:
    """A place with a worker, or one without."""

    def __init__(self, number: int, pid: int | None = 7) -> None:
        self.number = number
        self.pid = pid
        self.sent: list[Inquiry] = []

    def send(self, inquiry: Inquiry) -> None:
        self.sent.append(inquiry)


class Parent:
    def __init__(self, *workers: Worker) -> None:
        self.clock = FakeClock()
        self.told: list[GatewayMessage] = []
        self.places = cast("list[Place]", list(workers))
        self.inquiries = Inquiries("gw", self.told.append, self.clock)

    def put(self, question: AskRequests | CancelRequests) -> None:
        self.inquiries.put(question, self.places)

    @property
    def seen(self) -> RequestsSeen:
        seen = self.told[-1].requests_seen
        assert seen is not None
        return seen


def one(name: str, age: float) -> LiveRequest:
    return LiveRequest(
        id=name, key="k", key_name="k", model="m", path="/", streams=True, state="prefill", age=age
    )


def seen(*requests: LiveRequest, ask: str = "q1") -> Told:
    return Told(
        seen=RequestsSeen(gateway="", ask=ask, total=9, matching=len(requests), requests=requests)
    )


@pytest.fixture
def parent() -> Parent:
    return Parent(Worker(0), Worker(1), Worker(2, pid=None))


def test_what_all_workers_say_becomes_one_answer_with_the_oldest_first(parent: Parent) -> None:
    parent.put(ASK)
    parent.inquiries.told(0, seen(one("a", 1.0), one("b", 3.0)))
    assert parent.told == []
    parent.inquiries.told(1, seen(one("c", 2.0)))
    assert [(request.id, request.age) for request in parent.seen.requests] == [
        ("b", 3.0),
        ("c", 2.0),
    ]
    told = parent.seen
    assert (told.gateway, told.ask, told.total, told.matching, told.silent) == (
        "gw",
        "q1",
        18,
        3,
        0,
    )


def test_the_newest_come_first_where_they_were_asked_for(parent: Parent) -> None:
    parent.put(AskRequests(ask="q1", limit=2, newest=True))
    parent.inquiries.told(0, seen(one("a", 1.0), one("b", 3.0)))
    parent.inquiries.told(1, seen(one("c", 2.0)))
    assert [request.id for request in parent.seen.requests] == ["a", "c"]


async def test_a_worker_that_does_not_answer_is_said_to_be_silent(parent: Parent) -> None:
    parent.put(ASK)
    parent.inquiries.told(0, seen(one("a", 1.0)))
    await parent.clock.advance(WITHIN - 0.1)
    parent.inquiries.look()
    assert parent.told == []
    await parent.clock.advance(0.2)
    parent.inquiries.look()
    assert (parent.seen.silent, len(parent.seen.requests)) == (1, 1)
    parent.inquiries.told(1, seen(one("late", 1.0)))
    assert len(parent.told) == 1


def test_a_worker_that_ends_is_not_waited_for(parent: Parent) -> None:
    parent.put(ASK)
    parent.inquiries.told(0, seen())
    parent.inquiries.ended(1)
    assert (parent.seen.silent, parent.seen.total) == (0, 9)


def test_without_workers_the_answer_is_that_there_is_nothing() -> None:
    parent = Parent(Worker(0, pid=None))
    parent.put(ASK)
    assert (parent.seen.total, parent.seen.silent) == (0, 0)


def test_an_answer_counts_once_and_only_for_its_question(parent: Parent) -> None:
    parent.put(ASK)
    parent.inquiries.told(0, seen(one("a", 1.0)))
    parent.inquiries.told(0, seen(one("a", 1.0)))
    parent.inquiries.told(1, seen(one("b", 1.0), ask="another"))
    parent.inquiries.told(1, Told())
    assert parent.told == []


def test_what_workers_ended_is_told_together(parent: Parent) -> None:
    parent.put(CANCEL)
    for number, ids in ((0, ("a",)), (1, ())):
        ended = RequestsEnded(gateway="", ask="c1", ids=ids)
        parent.inquiries.told(number, Told(ended=ended))
    assert parent.told == [
        GatewayMessage(requests_ended=RequestsEnded(gateway="gw", ask="c1", ids=("a",)))
    ]


def test_of_too_many_questions_the_oldest_is_answered_with_what_is_there(parent: Parent) -> None:
    for number in range(OPEN_MOST + 1):
        parent.put(AskRequests(ask=f"q{number}", limit=2))
    assert [told.requests_seen.ask for told in parent.told if told.requests_seen] == ["q0"]
    assert parent.seen.silent == 2
