"""What was used at a gateway without a control plane, by hour: counted once, whatever happens."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.alone_usage import HOUR, KEPT, AloneUsage, kept_rows
from llmgw.model.keys import UsageTotals
from tests.fakes.clock import FakeClock
from tests.fakes.machine import MemoryFiles

STATE = Path("/s")
DIRECTORY = STATE / "usage-hours"
BEGIN = 500_000 * HOUR


class Kept:
    """One gateway's usage, and what its files say."""

    def __init__(self) -> None:
        self.files, self.clock = MemoryFiles(), FakeClock(float(BEGIN))
        self.usage = AloneUsage(DIRECTORY, self.files, self.clock)

    def count(self, requests: int, *, worker: int = 0, key: str = "k") -> None:
        totals = UsageTotals(key=key, model="m", requests=requests, prompt_tokens=2 * requests)
        self.usage.count(worker, [totals])

    def by_hour(self, since: float = 0.0, until: float = 1e12) -> dict[int, int]:
        rows = kept_rows(STATE, self.files, since=since, until=until)
        assert all(row.prompt_tokens == 2 * row.requests for row in rows)
        hours = {int(row.hour - BEGIN) // HOUR for row in rows}
        return {
            hour: sum(row.requests for row in rows if row.hour == BEGIN + hour * HOUR)
            for hour in hours
        }


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_totals_of_workers_are_added_to_the_hour_in_which_they_came(kept):
    kept.count(2)
    kept.count(3, worker=1)
    kept.usage.save()
    kept.clock.jump(HOUR)
    kept.count(6)
    kept.usage.save()
    assert kept.by_hour() == {0: 5, 1: 4}
    assert kept.by_hour(since=BEGIN + HOUR) == {1: 4}
    assert kept.by_hour(until=BEGIN + HOUR) == {0: 5}


def test_a_start_within_the_hour_goes_on_from_its_file(kept):
    kept.count(2)
    kept.usage.save()
    kept.usage = AloneUsage(DIRECTORY, kept.files, kept.clock)
    kept.count(1)
    kept.usage.save()
    assert kept.by_hour() == {0: 3}


def test_a_full_disk_over_the_turn_of_the_hour_loses_nothing(kept):
    kept.files.full = True
    kept.count(2)
    with pytest.raises(OSError, match="No space"):
        kept.usage.save()
    kept.clock.jump(HOUR)
    kept.count(3)
    with pytest.raises(OSError, match="No space"):
        kept.usage.save()
    kept.files.full = False
    kept.usage.save()
    assert kept.by_hour() == {0: 2, 1: 1}


def test_what_a_worker_forgot_counts_from_zero_again(kept):
    kept.count(5)
    kept.usage.forget(0, [UsageTotals(key="k", model="m", requests=5)])
    kept.count(2)
    kept.usage.save()
    assert kept.by_hour() == {0: 7}


def test_old_hours_are_removed_and_what_is_no_hour_is_left_alone(kept):
    kept.count(1)
    kept.usage.save()
    kept.files.write(DIRECTORY / "notes.txt", b"mine")
    kept.clock.jump((KEPT + 1) * HOUR)
    kept.count(2)
    kept.usage.save()
    assert kept.by_hour() == {KEPT + 1: 1}
    assert kept.files.read(DIRECTORY / "notes.txt") == b"mine"


def test_a_damaged_file_costs_its_hour_alone(kept):
    kept.files.write(DIRECTORY / f"{BEGIN}.hour", b"broken")
    kept.count(1)
    kept.usage.save()
    assert kept.by_hour() == {0: 1}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 5), st.sampled_from([0, 1000, 4000])),
        max_size=20,
    )
)
def test_the_sum_of_all_hours_is_what_was_counted(steps):
    kept, totals = Kept(), [0, 0]
    for worker, more, seconds in steps:
        totals[worker] += more
        kept.count(totals[worker], worker=worker)
        kept.usage.save()
        kept.clock.jump(float(seconds))
    assert sum(kept.by_hour().values()) == sum(totals)
    for name in kept.files.names(DIRECTORY):
        assert msgspec.msgpack.decode(kept.files.read(DIRECTORY / name))
