"""What keys may use at one gateway: its windows, its slices, its workers."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.admission.quota import RESERVED_MOST
from llmgw.gateway.key_cells import KeyCells, Limit
from llmgw.gateway.quota_book import QuotaBook
from llmgw.gateway.quotas import REPORT_MOST, Quotas
from llmgw.link.codec import decode, encode
from llmgw.model.bounds import bounded
from llmgw.model.keys import QuotaFigures, QuotaGrant, QuotaSlice
from llmgw.model.link import GatewayMessage
from tests.fakes.machine import MemoryFiles
from tests.fakes.quotas import Machine, key


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_requests_per_minute_are_counted_over_all_workers(machine):
    machine.keep(key(requests_per_minute=10))
    assert (machine.ask(6, 0), machine.ask(6, 1), machine.ask(1, 0)) == (6, 4, 0)
    refusal = machine.refusal(1)
    assert refusal.code == "over_requests_per_minute"
    assert "'k'" in refusal.message
    assert "10 requests per minute" in refusal.message
    assert 60 <= refusal.retry_after <= 62
    machine.pass_(refusal.retry_after)
    assert machine.ask(20) == 10


def test_what_is_used_up_bit_by_bit_comes_back_bit_by_bit(machine):
    machine.keep(key(requests_per_minute=3))
    for _ in range(3):
        assert machine.ask(1) == 1
        machine.pass_(15)
    assert machine.ask(1) == 0
    wait = machine.refusal().retry_after
    assert 15 <= wait <= 17
    machine.pass_(wait)
    assert machine.ask(5) == 1


def test_one_is_said_as_one(machine):
    machine.keep(key(requests_per_minute=1), key("other", concurrent=1))
    assert machine.ask(1) == 1
    assert "has used its 1 request per minute;" in machine.refusal().message
    machine.workers[0].admit(machine.column("other"), 0)
    assert "has 1 request running," in machine.refusal(key_id="other").message


def test_tokens_are_a_debt_that_has_to_slide_out(machine):
    machine.keep(key(tokens_per_minute=100))
    column, worker = machine.column(), machine.workers[0]
    charge = worker.admit(column, 40)
    assert machine.cells[1].total(1, column) == 10
    charge.completion(200)
    assert worker.reached(column)
    assert machine.workers[1].reached(column)
    assert machine.refusal().code == "over_tokens_per_minute"
    charge.prompt(7)
    charge.closed()
    assert machine.cells[1].total(1, column) == 207
    machine.pass_(62)
    assert not worker.reached(column)


def test_a_reservation_is_given_back_when_nothing_was_used(machine):
    machine.keep(key(tokens_per_minute=100))
    column, worker = machine.column(), machine.workers[0]
    charge = worker.admit(column, 1 << 20)
    assert machine.cells[0].total(1, column) == RESERVED_MOST
    assert worker.reached(column)
    charge.closed()
    assert not worker.reached(column)


def test_as_many_requests_run_as_may_and_a_dead_worker_has_none(machine):
    machine.keep(key(concurrent=2))
    column = machine.column()
    one = machine.workers[0].admit(column, 0)
    machine.workers[1].admit(column, 0)
    assert machine.workers[0].reached(column)
    refusal = machine.refusal()
    assert (refusal.code, refusal.retry_after) == ("over_concurrent", 1)
    one.closed()
    assert not machine.workers[1].reached(column)
    machine.workers[0].admit(column, 0)
    assert machine.workers[0].reached(column)
    machine.quotas.worker_ended(1)
    assert not machine.workers[0].reached(column)


def test_the_limit_that_lasts_longest_is_named(machine):
    machine.keep(key(requests_per_minute=1, tokens_per_day=10, concurrent=1))
    machine.workers[0].admit(machine.column(), 0).completion(10)
    refusal = machine.refusal()
    assert refusal.code == "over_tokens_per_day"
    assert refusal.retry_after > 23 * 3600


def test_a_change_of_limits_acts_at_once_and_forgets_nothing(machine):
    machine.keep(key(requests_per_minute=5))
    assert machine.ask(9) == 5
    machine.keep(key(requests_per_minute=8))
    assert machine.ask(9) == 3
    machine.keep(key())
    assert machine.quotas.columns((machine.keys["k"],)) == {}


def test_a_column_is_given_to_another_key_only_when_nothing_runs_there(machine):
    machine.keep(key("one", concurrent=5))
    column = machine.column("one")
    charge = machine.workers[0].admit(column, 0)
    machine.keep(key("two", concurrent=5))
    assert machine.column("two") != column
    charge.closed()
    machine.keep()
    machine.keep(*(key(str(number), requests_per_minute=3) for number in range(3)))
    for name in machine.keys:
        assert machine.ask(9, key_id=name) == 3  # what another key used there counts for nobody


def test_without_a_leader_the_whole_limit_is_kept_to_and_nothing_is_reported(machine):
    machine.keep(key(requests_per_minute=9))
    assert machine.ask(12) == 9
    assert machine.quotas.report() is None


def test_a_share_then_a_slice_then_a_share_again(machine):
    machine.keep(key(requests_per_minute=9))
    machine.quotas.grant(QuotaGrant(gateways=3))
    assert machine.ask(5) == 3
    assert "3 of its 9 requests per minute" in machine.refusal().message
    more = QuotaSlice(key="k", slice=QuotaFigures(requests_per_minute=7), more=True)
    machine.quotas.grant(QuotaGrant(gateways=3, slices=(more,)))
    assert machine.ask(9) == 4
    assert machine.refusal().retry_after == 2
    machine.quotas.stream_began()  # the control plane is away: the slice stays
    machine.pass_(120)
    assert machine.ask(9) == 7
    machine.pass_(120)
    machine.quotas.grant(QuotaGrant(gateways=3, slices=(QuotaSlice(key="k"),)))
    assert machine.ask(9) == 3


def test_what_changed_is_reported_once_to_a_leader_that_lends(machine):
    machine.keep(key(requests_per_minute=2, concurrent=5), key("idle", requests_per_minute=2))
    machine.quotas.grant(QuotaGrant(gateways=0))
    assert machine.quotas.report() is None
    machine.workers[0].admit(machine.column(), 0)
    report = machine.quotas.report()
    assert [use.key for use in report.keys] == ["k"]
    assert report.keys[0].used == QuotaFigures(requests_per_minute=1, concurrent=1)
    assert report.keys[0].held == QuotaFigures(requests_per_minute=2, concurrent=5)
    assert machine.quotas.report() is None
    machine.ask(1)
    machine.refusal()
    (use,) = machine.quotas.report().keys
    assert use.short
    assert machine.quotas.report() is None
    machine.quotas.stream_began()
    assert machine.quotas.report() is None
    machine.quotas.grant(QuotaGrant(gateways=0))
    (use,) = machine.quotas.report().keys
    assert not use.short
    machine.pass_(62)
    (use,) = machine.quotas.report().keys
    assert use.used.requests_per_minute == 0


def test_of_more_keys_than_a_report_holds_each_has_its_turn_and_none_is_cut(machine):
    machine.keep(*(key(f"k{number}", requests_per_minute=9) for number in range(REPORT_MOST + 20)))
    machine.quotas.grant(QuotaGrant(gateways=0))
    told = []
    for _ in range(2):
        for name in machine.keys:  # all of them change all the time
            machine.ask(1, key_id=name)
        message = GatewayMessage(quotas=machine.quotas.report())
        taken, cut = bounded(decode(encode(message), GatewayMessage))
        assert (taken, cut) == (message, {})
        told.append([use.key for use in taken.quotas.keys])
    assert [len(keys) for keys in told] == [REPORT_MOST, REPORT_MOST]
    assert set(told[0]) | set(told[1]) == machine.keys.keys()


def test_a_restart_goes_on_with_the_day_and_the_slices(machine):
    files = MemoryFiles()
    path = Path("/state/quotas")
    book = QuotaBook(machine.quotas, path, files)
    book.restore()  # nothing there
    machine.keep(key(tokens_per_day=1000, requests_per_minute=9))
    machine.workers[0].admit(machine.column(), 0).completion(999)
    slice_ = QuotaFigures(tokens_per_day=1000, requests_per_minute=4)
    machine.quotas.grant(QuotaGrant(gateways=2, slices=(QuotaSlice(key="k", slice=slice_),)))
    book.save()
    after = Machine(machine.clock)
    QuotaBook(after.quotas, path, files).restore()
    after.keep(*machine.keys.values())
    assert after.ask(9) == 4
    after.workers[0].admit(after.column(), 0).completion(1)
    assert after.refusal().code == "over_tokens_per_day"
    after.pass_(25 * 3600)
    assert not after.workers[0].reached(after.column())


def test_a_kept_file_that_is_broken_is_as_none(machine):
    files = MemoryFiles()
    path = Path("/state/quotas")
    files.write(path, b"nonsense")
    QuotaBook(machine.quotas, path, files).restore()
    files.full = True
    QuotaBook(machine.quotas, path, files).save()
    assert msgspec.structs.asdict(machine.quotas.kept())["gateways"] == 1


def test_headers_say_what_is_left(machine):
    machine.keep(key(requests_per_minute=5, tokens_per_minute=100))
    machine.ask(2)
    lines = machine.workers[1].lines(machine.column(), machine.keys["k"])
    assert b"x-ratelimit-limit-requests: 5\r\n" in lines
    assert b"x-ratelimit-remaining-requests: 3\r\n" in lines
    assert b"x-ratelimit-remaining-tokens: 100\r\n" in lines
    assert b"x-ratelimit-reset-tokens: 1m1s\r\n" in lines


class SlidesAll(Quotas):
    """The same with every key looked at each time, as if all of them had been used."""

    def look(self) -> None:
        for one in self._limited.values():
            self._touch(one, self._clock.monotonic())
        super().look()


LIMITED = tuple(
    key(name, requests_per_minute=5, tokens_per_minute=40, tokens_per_day=400) for name in "abc"
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 30),
            st.sampled_from([0.5, 1.0, 7.5, 61.0, 900.0, 30_000.0, 90_000.0]),
        ),
        max_size=12,
    )
)
def test_keys_that_rest_are_kept_to_their_limits_as_if_they_were_looked_at(steps):
    machine, thorough = Machine(), Machine()
    thorough.quotas = SlidesAll(thorough.cells[0], "gw", thorough.clock)
    for one in (machine, thorough):
        one.keep(*LIMITED)
    for name, tokens, seconds in steps:
        for one in (machine, thorough):
            if not one.workers[0].reached(one.column(name)):
                charge = one.workers[0].admit(one.column(name), 0)
                charge.completion(tokens)
                charge.closed()
            leaps(one, seconds)
        for known in "abc":
            assert figures(machine, known) == figures(thorough, known)
    assert machine.quotas.kept().days == thorough.quotas.kept().days


def leaps(machine: Machine, seconds: float) -> None:
    """Let time go by with few looks: what was not looked at meanwhile is the same for both."""
    for _ in range(4):
        machine.clock.pass_(seconds / 4)
        machine.quotas.look()


def figures(machine: Machine, name: str) -> tuple[object, ...]:
    column, worker = machine.column(name), machine.workers[0]
    return worker.reached(column), worker.lines(column, machine.keys[name])


def test_a_look_costs_what_was_used_and_not_how_many_keys_there_are(monkeypatch):
    machine = Machine()
    machine.keep(*(key(f"k{number}", requests_per_minute=9) for number in range(500)))
    machine.quotas.grant(QuotaGrant(gateways=0))
    while machine.quotas.report() is not None:
        pass
    machine.pass_(2.0)
    seen: list[int] = []
    ring = KeyCells.ring

    def noted(cells: KeyCells, limit: Limit, column: int) -> object:
        seen.append(column)
        return ring(cells, limit, column)

    monkeypatch.setattr(KeyCells, "ring", noted)
    machine.pass_(2.0)
    assert (seen, machine.quotas.report()) == ([], None)
    machine.ask(1, key_id="k7")
    machine.pass_(2.0)
    report = machine.quotas.report()
    assert report is not None
    assert [use.key for use in report.keys] == ["k7"]
    assert set(seen) == {machine.column("k7")}


def test_keys_over_their_limits_are_those_of_which_one_was_refused_within_a_minute(machine):
    machine.keep(key("a", requests_per_minute=1), key("b", requests_per_minute=1))
    for name in "ab":
        machine.ask(1, key_id=name)
    machine.refusal(1, "a")
    machine.pass_(1)
    assert machine.quotas.over() == 1
    machine.pass_(61)
    assert machine.quotas.over() == 0
