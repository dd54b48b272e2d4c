"""Replies that pass piece by piece: what is charged when, and how long they may be silent."""

from types import SimpleNamespace
from typing import Any

import pytest

from llmgw.gateway.accounting import Account, Books
from llmgw.gateway.proxy.body import Asked
from llmgw.gateway.proxy.deadlines import NEVER, PERIOD, Deadlines
from llmgw.gateway.proxy.exchange import Exchange
from llmgw.gateway.proxy.means import Task
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.proxy.streams import Streams
from llmgw.gateway.table import default_config
from llmgw.model.keys import UsageTotals

PIECE = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
LOOKS_OF_SILENCE = int(default_config().idle_timeout / PERIOD)


class Client:
    """A connection that takes everything."""

    def __init__(self) -> None:
        self.deadline = NEVER
        self.written = b""
        self.ended = False
        self.running: Exchange | None = None

    def write(self, data: bytes) -> None:
        self.written += data

    def finish(self, *, keep: bool = True) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def expire(self) -> None:
        assert self.running is not None
        self.deadline = NEVER
        self.running.expired()

    def break_off(self) -> None:
        raise AssertionError("it could not act on its deadline")


class Worker:
    """As much of one as an exchange needs, with time that stands still."""

    def __init__(self) -> None:
        self.time = 100.0
        self.clock_reads = 0
        self.deadlines = Deadlines(self._now)
        self.streams = Streams()
        self.books = Books()
        self.charged: UsageTotals | None = None

    def _now(self) -> float:
        self.clock_reads += 1
        return self.time

    def stream(self, client: Client) -> Exchange:
        """Return the exchange of a stream whose first piece has come."""
        request = Request()
        request.path = b"/v1/chat/completions"
        way: Any = SimpleNamespace(model="m")
        task = Task(request, b"r", Asked(model="m", stream=True), way, default_config())
        account = self.books.open("k1", "m", 40, self.time)
        exchange = Exchange(self, client, task, account)  # type: ignore[arg-type]
        exchange._sending.engine = an_engine()
        exchange.reply_head(200, [(b"content-type", b"text/event-stream")], None)
        exchange.reply_piece(PIECE)
        client.running = exchange
        self.deadlines.add(client)
        return exchange

    def tick(self) -> None:
        """Let a period pass, and do at its end what a worker does."""
        self.time += PERIOD
        self.streams.look(self.time)
        self.deadlines.look()

    @property
    def completion_tokens(self) -> int:
        counted = self.books.take_changes()
        if counted is not None and counted.totals:
            (self.charged,) = counted.totals
        assert self.charged is not None
        return self.charged.completion_tokens


class Faulty(Account):
    """One that cannot be charged while it runs."""

    __slots__ = ()

    def progress(self, produced: int) -> None:
        raise ZeroDivisionError


def an_engine() -> Any:
    return SimpleNamespace(
        endpoint=SimpleNamespace(is_outside=False),
        worked=lambda now: None,
        left=lambda probe: None,
        give_back=lambda connection, now: None,
    )


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_piece_reads_no_clock_and_charges_nothing_by_itself(worker, client):
    exchange = worker.stream(client)
    worker.tick()
    before, charged = worker.clock_reads, worker.completion_tokens
    for _ in range(100):
        exchange.reply_piece(PIECE)
    assert worker.clock_reads == before
    assert worker.completion_tokens == charged
    assert client.written.count(PIECE) == 101


def test_what_passed_is_charged_at_the_next_look(worker, client):
    exchange = worker.stream(client)
    for passed in (1, 10, 40):
        before = worker.completion_tokens
        for _ in range(passed):
            exchange.reply_piece(PIECE)
        worker.tick()
        assert worker.completion_tokens == before + passed


def test_a_client_that_leaves_between_two_looks_is_charged_for_all_that_passed(worker, client):
    exchange = worker.stream(client)
    worker.tick()
    for _ in range(7):
        exchange.reply_piece(PIECE)
    exchange.client_left()
    assert worker.completion_tokens == 7
    assert len(worker.streams) == 0


def test_a_stream_that_breaks_between_two_looks_is_charged_for_all_that_passed(worker, client):
    exchange = worker.stream(client)
    for _ in range(7):
        exchange.reply_piece(PIECE)
    exchange.reply_broken("gone", untouched=False)
    assert worker.completion_tokens == 7
    assert len(worker.streams) == 0
    assert b"engine_failed" in client.written


def test_a_stream_that_ends_without_a_word_of_its_usage_is_charged_for_what_passed(worker, client):
    exchange = worker.stream(client)
    for _ in range(7):
        exchange.reply_piece(PIECE)
    exchange.reply_end(PIECE + DONE)
    assert worker.completion_tokens == 8
    assert len(worker.streams) == 0
    assert client.ended


def test_a_stream_of_which_pieces_come_lives_longer_than_the_idle_timeout(worker, client):
    exchange = worker.stream(client)
    for number in range(3 * LOOKS_OF_SILENCE):
        if number % (LOOKS_OF_SILENCE - 1) == 0:
            exchange.reply_piece(PIECE)
        worker.tick()
        assert not client.ended


def test_a_stream_is_silent_for_the_idle_timeout_and_no_longer_than_two_looks_more(worker, client):
    exchange = worker.stream(client)
    worker.tick()
    exchange.reply_piece(PIECE)
    for _ in range(LOOKS_OF_SILENCE):
        worker.tick()
        assert not client.ended
    worker.tick()
    worker.tick()
    assert client.ended
    assert b"engine_timeout" in client.written
    assert len(worker.streams) == 0


def test_what_passed_just_before_a_client_stopped_reading_gives_it_no_more_time(worker, client):
    exchange = worker.stream(client)
    exchange.reply_piece(PIECE)
    exchange.pause()
    deadline = client.deadline
    worker.tick()
    assert client.deadline == deadline


def test_an_ended_stream_leaves_the_deadline_of_its_connection_alone(worker, client):
    exchange = worker.stream(client)
    exchange.reply_piece(PIECE)
    exchange.reply_end(DONE)
    client.deadline = 7.0
    worker.streams.look(worker.time)
    assert client.deadline == 7.0


def test_a_fault_in_one_look_ends_that_stream_and_the_others_are_charged(worker, client):
    faulty_client = Client()
    other, faulty = worker.stream(client), worker.stream(faulty_client)
    faulty._account.__class__ = Faulty
    for exchange in (faulty, other):
        for _ in range(5):
            exchange.reply_piece(PIECE)
    worker.streams.look(worker.time)
    assert len(worker.streams) == 1
    assert faulty_client.ended
    assert other._account._charged == 5
    assert not client.ended
