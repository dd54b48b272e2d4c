"""What is counted: totals never fall, nothing counts twice, nothing is lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from llmgw.gateway.accounting import Books
from llmgw.gateway.entry import Entry
from llmgw.gateway.journal import UsageJournal
from llmgw.gateway.meter import BOUNDS, Spread
from llmgw.gateway.proxy.usage import Usage
from llmgw.model.keys import UsageReport, UsageTotals
from llmgw.model.link import UsageTaken
from tests.fakes.machine import MemoryFiles

PLACE = Path("/usage")


def row(requests: int, key: str = "k", model: str = "m") -> UsageTotals:
    return UsageTotals(key=key, model=model, requests=requests)


def taken(report: UsageReport) -> UsageTaken:
    return UsageTaken(
        gateway=report.gateway, boot=report.boot, worker=report.worker, sequence=report.sequence
    )


def journal(files: MemoryFiles, boot: str = "b1") -> UsageJournal:
    return UsageJournal(PLACE, files, "gw", boot)


# The journal.


def test_what_changed_is_told_once_a_stream_until_it_is_taken():
    files = MemoryFiles()
    book = journal(files)
    book.count(0, [row(1), row(5, "other")])
    assert book.save() == 1
    (first,) = book.due()
    assert (first.sequence, len(first.totals)) == (1, 2)
    assert book.due() == []
    book.stream_began()
    assert book.due() == [first]
    book.taken(taken(first))
    book.stream_began()
    assert book.due() == []
    assert files.content == {}


def test_a_report_carries_what_no_report_that_was_taken_carried():
    book = journal(MemoryFiles())
    book.count(0, [row(1), row(5, "other")])
    book.save()
    (first,) = book.due()
    book.count(0, [row(2)])
    book.save()
    (second,) = book.due()
    assert second.totals == (row(2), row(5, "other"))  # the first may be lost
    book.taken(taken(first))
    book.count(0, [row(3)])
    book.save()
    (third,) = book.due()
    assert (third.sequence, third.totals) == (3, (row(3),))


def test_a_file_that_cannot_be_written_keeps_none_of_the_others_from_it(monkeypatch):
    files = MemoryFiles()
    book = journal(files)
    write = files.write

    def refuses_the_first(path: Path, content: bytes) -> None:
        if path.name.startswith("b1-0"):
            raise OSError("no room")
        write(path, content)

    book.count(0, [row(1)])
    book.count(1, [row(2)])
    with monkeypatch.context() as patch:
        patch.setattr(files, "write", refuses_the_first)
        with pytest.raises(OSError, match="no room"):
            book.save()
    assert [path.name for path in files.content] == ["b1-1.usage"]
    assert book.save() == 1
    assert len(files.content) == 2


def test_the_next_start_tells_what_the_last_one_wrote():
    files = MemoryFiles()
    before = journal(files)
    before.count(0, [row(4)])
    before.count(1, [row(6)])
    before.save()
    after = journal(files, "b2")
    after.count(0, [row(1)])
    after.save()
    after.stream_began()
    told = after.due()
    assert [(one.boot, one.worker, one.totals[0].requests) for one in told] == [
        ("b1", 0, 4), ("b1", 1, 6), ("b2", 0, 1),
    ]  # fmt: skip
    assert after.waiting == 3
    for report in told:
        after.taken(taken(report))
    assert (after.waiting, files.content) == (0, {})


def test_a_full_disk_loses_nothing_but_what_a_kill_would_cost():
    files = MemoryFiles()
    book = journal(files)
    files.full = True
    book.count(0, [row(4)])
    with pytest.raises(OSError, match="space"):
        book.save()
    assert book.due()[0].totals == (row(4),)
    files.full = False
    assert book.save() == 1
    assert list(files.modes.values()) == [0o600]


def test_files_that_are_not_ours_or_broken_are_left_where_they_are():
    files = MemoryFiles()
    files.content = {
        PLACE / "b-0.usage": b"nonsense",
        PLACE / "README": b"",
        PLACE / ".b-0.usage.x": b"",
    }
    book = journal(files)
    assert book.waiting == 0
    assert len(files.content) == 3


class JournalMachine(RuleBasedStateMachine):
    """Kills, lost reports and lost answers in any order: the store ends with what was saved."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.boots = 0
        self.saved: dict[tuple[str, int], int] = {}
        self.counted: dict[tuple[str, int], int] = {}
        self.store: dict[tuple[str, int], tuple[int, int]] = {}
        self.answers: list[UsageTaken] = []
        self.begin()

    def begin(self) -> None:
        self.boots += 1
        self.boot = f"b{self.boots}"
        self.counts = {0: 0, 1: 0}
        self.book = journal(self.files, self.boot)
        self.book.stream_began()

    @rule(worker=st.sampled_from([0, 1]), more=st.integers(0, 5))
    def count(self, worker: int, more: int) -> None:
        self.counts[worker] += more
        self.counted[self.boot, worker] = self.counts[worker]
        self.book.count(worker, [row(self.counts[worker])])

    @rule()
    def save(self) -> None:
        self.book.save()
        self.saved |= {(self.boot, worker): count for worker, count in self.counts.items()}

    @rule(lost=st.booleans(), answer_lost=st.booleans())
    def send(self, lost: bool, answer_lost: bool) -> None:
        for report in self.book.due():
            if not lost:
                self.apply(report)
                if not answer_lost:
                    self.answers.append(taken(report))

    def apply(self, report: UsageReport) -> None:
        which = (report.boot, report.worker)
        sequence, requests = self.store.get(which, (0, 0))
        if report.sequence > sequence:
            assert all(one.requests >= requests for one in report.totals)
            requests = max([requests, *(one.requests for one in report.totals)])
            self.store[which] = (report.sequence, requests)

    @rule()
    def answer(self) -> None:
        while self.answers:
            self.book.taken(self.answers.pop(0))

    @rule()
    def reconnect(self) -> None:
        self.answers.clear()
        self.book.stream_began()

    @rule()
    def kill(self) -> None:
        self.answers.clear()
        self.begin()

    @invariant()
    def the_store_never_has_more_than_was_counted(self) -> None:
        for which, (_, requests) in self.store.items():
            assert requests <= self.counted[which]

    def teardown(self) -> None:
        self.save()
        self.book.stream_began()
        for report in self.book.due():
            self.apply(report)
            self.book.taken(taken(report))
        for which, requests in self.saved.items():
            assert self.store.get(which, (0, 0))[1] >= requests
        assert self.files.content == {}


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(stateful_step_count=30)


# The books.


@given(st.lists(st.integers(-20, 50)))
def test_a_total_never_falls_and_ends_no_lower_than_the_sum(changes):
    entry = Entry("k", "m")
    before = 0
    for change in changes:
        rise = entry.add_completion(change)
        assert entry.completion - before == rise >= 0
        before = entry.completion
    assert entry.completion - entry.owed == sum(changes)


@given(st.lists(st.floats(0, 1000, allow_nan=False), min_size=1))
def test_a_histogram_goes_on_from_its_record(seconds):
    spread, other = Spread(), Spread()
    for one in seconds:
        spread.add(one)
    record = spread.record()
    assert record is not None
    assert record.counts[-1] == len(seconds)
    assert list(record.counts) == sorted(record.counts)
    assert len(record.counts) == len(BOUNDS) + 1
    other.resume(record)
    assert other.record() == record


def test_refusals_and_errors_go_on_in_the_worker_that_replaces_another():
    books, other = Books(), Books()
    books.refused("queue_full", "m")
    for _ in range(2):
        books.failed("engine_timeout", "m")
    other.resume((), books.take_changes().traffic)
    other.failed("engine_timeout", "m")
    (seen,) = other.take_changes().traffic
    assert {one.code: one.count for one in seen.refusals} == {"queue_full": 1}
    assert {one.code: one.count for one in seen.errors} == {"engine_timeout": 3}


def test_a_histogram_of_nothing_is_absent():
    assert Spread().record() is None


def test_the_time_between_tokens_is_that_of_a_whole_reply_without_its_first_token():
    books = Books()
    streamed = books.open("k", "m", 100, 0.0)
    streamed.first_byte(2.0)
    streamed.finished(200, Usage(prompt_tokens=9, completion_tokens=11), 500, 2.5)
    whole = books.open("k", "m", 100, 0.0)
    whole.finished(200, Usage(prompt_tokens=9, completion_tokens=11), 500, 2.5)
    single = books.open("k", "m", 100, 0.0)
    single.first_byte(2.0)
    single.finished(200, Usage(prompt_tokens=9, completion_tokens=1), 500, 9.0)
    left = books.open("k", "m", 100, 0.0)
    left.first_byte(2.0)
    left.cancelled(200, 40, 9.0)
    counted = books.take_changes()
    assert counted is not None
    spread = counted.traffic[0].inter_token
    assert spread is not None
    assert (spread.counts[-1], spread.sum) == (1, 0.05)
    resumed = Books()
    resumed.resume((), counted.traffic)
    again = resumed.take_changes()
    assert again is not None
    assert again.traffic[0].inter_token == spread


def test_an_embedding_used_no_completion():
    books = Books()
    account = books.open("k", "m", 100, 0.0)
    account.finished(200, Usage(prompt_tokens=9, total_tokens=9), 500, 1.0)
    counted = books.take_changes()
    assert counted is not None
    (totals,) = counted.totals
    assert (totals.prompt_tokens, totals.completion_tokens, totals.estimated) == (9, 0, 0)


def test_an_error_of_the_engine_is_charged_nothing():
    books = Books()
    books.open("k", "m", 100, 0.0).finished(400, None, 50, 1.0)
    books.open("k", "m", 100, 0.0).finished(500, None, 50, 1.0)
    counted = books.take_changes()
    assert counted is not None
    (totals,) = counted.totals
    assert totals == UsageTotals(key="k", model="m", requests=2, failed=1)


def test_only_what_changed_is_told():
    books = Books()
    books.open("k1", "m", 1, 0.0).finished(200, None, 1, 1.0)
    books.open("k2", "n", 1, 0.0).finished(200, None, 1, 1.0)
    assert books.take_changes() is not None
    assert books.take_changes() is None
    books.open("k2", "n", 1, 0.0)
    counted = books.take_changes()
    assert counted is not None
    assert [one.key for one in counted.totals] == ["k2"]
    assert [(one.model, one.in_flight) for one in counted.traffic] == [("n", 1)]
