"""Keys that come and go: what they used is never lost, and they are not remembered for ever."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llmgw.gateway.accounting import Account, Books
from llmgw.gateway.forgetting import PAUSE
from llmgw.gateway.frames import Forget, Forgot, TableFrame
from llmgw.gateway.places import Place
from llmgw.gateway.proxy.usage import Usage
from llmgw.gateway.usage_kept import KeptUsage
from llmgw.model.keys import UsageReport, UsageTotals
from llmgw.model.link import UsageTaken
from llmgw.store.values.usage import UsageRows
from tests.fakes.gateway import key_record
from tests.fakes.machine import MemoryFiles
from tests.fakes.quotas import Hand

MODEL = "m"
NAMES = ("k1", "k2")


class Seat:
    """A place whose worker is in this process; a message arrives when the test says so."""

    def __init__(self) -> None:
        self.number = 0
        self.active = True
        self.totals: dict[tuple[str, str], UsageTotals] = {}
        self.books = Books()
        self.sent: list[Forget] = []

    def send(self, frame: Forget) -> None:
        self.sent.append(frame)


class Gateway:
    """A parent, one worker, and a store that may not hear or not be heard."""

    def __init__(self) -> None:
        self.clock, self.files = Hand(), MemoryFiles()
        self.seat = Seat()
        self.boots = 0
        self.kept = self._begin()
        self.store = UsageRows()
        self.open: list[Account] = []
        self.answers: list[UsageTaken] = []

    def _begin(self) -> KeptUsage:
        self.boots += 1
        boot = f"b{self.boots}"
        return KeptUsage(Path("/s"), self.files, "gw", boot, self.clock, alone=False)

    @property
    def place(self) -> Place:
        return cast("Place", self.seat)

    def tell(self) -> None:
        """Let the worker tell its parent what changed."""
        counted = self.seat.books.take_changes()
        if counted is not None:
            self.seat.totals.update({(row.key, row.model): row for row in counted.totals})
            self.kept.count(0, counted.totals)

    def save(self, *, heard: bool = True, answered: bool = True) -> None:
        """Write, and tell the store."""
        self.kept.save()
        for report in self.kept.journal.due():
            if heard:
                self.store.apply(report, at=1.0)
                self.answers.append(taken(report))
        if answered:
            self.hear_answers()

    def hear_answers(self) -> None:
        """Let what the store said arrive, late as it may be."""
        answers, self.answers = self.answers, []
        for one in answers:
            self.kept.journal.taken(one)

    def reconnect(self) -> None:
        self.answers = []
        self.kept.journal.stream_began()

    def gone(self, *names: str) -> None:
        self.kept.told(TableFrame(gone_keys=names))

    def back(self, name: str) -> None:
        self.kept.told(TableFrame(keys=(key_record(f"llmgw_{name}_x"),)))

    def look(self) -> None:
        self.clock.pass_(PAUSE)
        self.kept.forget([self.place])

    def deliver(self) -> None:
        """Let the worker hear what it is asked, and its parent the answer."""
        asked, self.seat.sent = self.seat.sent, []
        for one in asked:
            forgotten = self.seat.books.forget(one.totals)
            if forgotten:
                self.kept.forgot(self.place, Forgot(totals=forgotten).totals)

    def replace_worker(self) -> None:
        """The worker dies with what it told nobody; another goes on from what was told."""
        self.open.clear()
        self.seat.books, self.seat.sent = Books(), []
        self.seat.books.resume(tuple(self.seat.totals.values()), ())

    def killed(self) -> None:
        """The parent dies, its worker with it; another goes on from what was written."""
        self.open.clear()
        self.seat = Seat()
        self.kept = self._begin()
        self.reconnect()

    def ask(self, name: str) -> None:
        self.open.append(self.seat.books.open(name, MODEL, 4, 0.0))

    def end_one(self) -> None:
        account = self.open.pop()
        account.finished(200, Usage(prompt_tokens=1, completion_tokens=1), 1, 1.0)

    def stored(self) -> int:
        rows = self.store.between(0, 1e9)
        return sum(row.prompt_tokens for row in rows)

    def remembered(self) -> set[str]:
        return {key for key, _ in self.seat.totals}


def taken(report: UsageReport) -> UsageTaken:
    return UsageTaken(
        gateway=report.gateway, boot=report.boot, worker=report.worker, sequence=report.sequence
    )


def used_by(*names: str) -> Gateway:
    gateway = Gateway()
    for name in names:
        gateway.ask(name)
        gateway.end_one()
    gateway.tell()
    return gateway


def test_a_key_that_is_gone_is_forgotten_when_all_of_it_was_taken():
    gateway = used_by("k1", "k2")
    gateway.gone("k1")
    gateway.look()
    assert gateway.seat.sent == []  # nobody has it yet
    gateway.save()
    gateway.look()
    gateway.deliver()
    assert gateway.remembered() == {"k2"}
    gateway.save()
    gateway.ask("k1")
    gateway.end_one()
    gateway.tell()
    gateway.save()
    assert gateway.stored() == 3
    assert [path for path in gateway.files.content if path.suffix == ".usage"] == []


def test_a_request_that_still_runs_is_waited_for():
    gateway = used_by("k1")
    gateway.ask("k1")
    gateway.tell()
    gateway.save()
    gateway.gone("k1")
    gateway.look()
    gateway.deliver()
    assert gateway.remembered() == {"k1"}
    gateway.end_one()
    gateway.tell()
    gateway.save()
    gateway.look()
    gateway.deliver()
    assert gateway.remembered() == set()
    assert gateway.stored() == 2


def test_what_the_worker_counted_and_did_not_tell_yet_is_counted_once():
    gateway = used_by("k1")
    gateway.save()
    gateway.ask("k1")
    gateway.end_one()
    gateway.gone("k1")
    gateway.look()
    gateway.deliver()
    gateway.tell()
    gateway.save()
    assert gateway.stored() == 2
    assert gateway.remembered() == {"k1"}


def test_a_key_that_comes_back_is_counted_once_though_no_answer_of_the_store_arrives():
    gateway = used_by("k1")
    gateway.save()
    gateway.gone("k1")
    gateway.look()
    gateway.deliver()
    gateway.back("k1")
    for number in range(3):
        gateway.ask("k1")
        gateway.end_one()
        gateway.tell()
        gateway.save(answered=False)
        assert gateway.stored() == 2 + number


def test_an_answer_to_an_earlier_report_leaves_what_came_since_on_disk():
    gateway = used_by("k1")
    gateway.save(answered=False)
    gateway.ask("k1")
    gateway.end_one()
    gateway.tell()
    gateway.save(heard=False, answered=True)
    gateway.killed()
    gateway.save()
    assert gateway.stored() == 2


def test_what_is_forgotten_is_told_on_the_next_stream_when_the_store_did_not_hear_it():
    gateway = used_by("k1")
    gateway.save()
    gateway.gone("k1")
    gateway.look()
    gateway.deliver()
    gateway.save(heard=False)
    gateway.reconnect()
    gateway.save()
    assert gateway.store._totals == {("gw", "b1", 0): {}}
    assert [path for path in gateway.files.content if path.suffix == ".usage"] == []


def test_what_has_no_worker_is_forgotten_without_asking():
    gateway = used_by("k1")
    gateway.save()
    gateway.seat.active = False
    gateway.gone("k1")
    gateway.look()
    assert (gateway.remembered(), gateway.seat.sent) == (set(), [])


def test_a_key_that_is_there_is_never_asked_about():
    gateway = used_by("k1")
    gateway.save()
    gateway.gone("k1")
    gateway.back("k1")
    gateway.look()
    assert gateway.seat.sent == []


def test_ten_thousand_keys_that_came_and_went_leave_nothing_behind():
    gateway = Gateway()
    for number in range(100):
        names: Sequence[str] = [f"n{number}x{one}" for one in range(100)]
        for name in names:
            gateway.ask(name)
            gateway.end_one()
        gateway.tell()
        gateway.save()
        gateway.gone(*names)
        gateway.look()
        gateway.deliver()
        gateway.save()
    assert gateway.remembered() == set()
    assert gateway.seat.books.forget([UsageTotals(key="n0x0", model=MODEL)]) == ()
    assert gateway.stored() == 10_000
    assert gateway.store._totals == {("gw", "b1", 0): {}}


class Machine(RuleBasedStateMachine):
    """Anything lost on the way, and workers that die, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.gateway = Gateway()
        self.ended = 0
        self.told = 0
        """Of those that ended: what the parent knows."""
        self.written = 0
        """Of these: what is on disk or with the store."""

    @rule(name=st.sampled_from(NAMES))
    def ask(self, name: str) -> None:
        self.gateway.ask(name)

    @precondition(lambda self: self.gateway.open)
    @rule()
    def end(self) -> None:
        self.gateway.end_one()
        self.ended += 1

    @rule()
    def tell(self) -> None:
        self.gateway.tell()
        self.told = self.ended

    @rule(heard=st.booleans(), answered=st.booleans())
    def save(self, heard: bool, answered: bool) -> None:
        self.gateway.save(heard=heard, answered=answered)
        self.written = self.told

    @rule()
    def reconnect(self) -> None:
        self.gateway.reconnect()

    @rule(name=st.sampled_from(NAMES), gone=st.booleans())
    def key(self, name: str, gone: bool) -> None:
        (self.gateway.gone if gone else self.gateway.back)(name)

    @rule()
    def look(self) -> None:
        self.gateway.look()

    # What goes together mostly, so that much happens in few steps.

    @rule(name=st.sampled_from(NAMES))
    def use(self, name: str) -> None:
        self.ask(name)
        self.end()

    @rule(answered=st.booleans())
    def settle(self, answered: bool) -> None:
        self.tell()
        self.save(heard=True, answered=answered)

    @rule(name=st.sampled_from(NAMES), delivered=st.booleans())
    def let_go(self, name: str, delivered: bool) -> None:
        self.gateway.gone(name)
        self.gateway.look()
        if delivered:
            self.gateway.deliver()

    @rule()
    def deliver(self) -> None:
        self.gateway.deliver()

    @rule()
    def answers_arrive(self) -> None:
        self.gateway.hear_answers()

    @rule()
    def worker_dies(self) -> None:
        self.gateway.replace_worker()
        self.ended = self.told

    @rule()
    def all_dies(self) -> None:
        self.gateway.killed()
        self.ended = self.told = self.written

    @invariant()
    def the_store_has_no_more_than_there_was(self) -> None:
        assert self.gateway.stored() <= self.told

    def teardown(self) -> None:
        self.gateway.reconnect()
        self.gateway.tell()
        self.gateway.save()
        assert self.gateway.stored() == self.ended
        assert [path for path in self.gateway.files.content if path.suffix == ".usage"] == []


TestForgetting = Machine.TestCase
TestForgetting.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
