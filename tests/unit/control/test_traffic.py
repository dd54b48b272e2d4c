"""Traffic: sums over workers and boots that never fall."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.control.traffic import Traffic, added
from llmgw.model.gateway import Histogram, ModelTraffic, ReplyCount, TrafficReport
from llmgw.store.interface import StoredTraffic
from tests.fakes.whole_scrape import whole_scrape

NOT_THERE = {"engine_aborts"}
"""Of what `whole_scrape` has: nothing ended that way."""


def report(boot: str, worker: int, count: int, *, in_flight: int = 0) -> TrafficReport:
    return TrafficReport(
        gateway="g1",
        boot=boot,
        worker=worker,
        models=(
            ModelTraffic(
                model="m",
                replies=(ReplyCount(code=200, count=count),),
                duration=Histogram(bounds=(1.0, 2.0), counts=(0, count, count), sum=1.5 * count),
                completion_tokens=10 * count,
                in_flight=in_flight,
            ),
        ),
    )


class Stored:
    """What a store would hold of one traffic after another."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredTraffic] = {}

    def take(self, traffic: Traffic) -> None:
        counted = traffic.unwritten()
        self.rows |= {one.gateway: one for one in counted}
        traffic.written(counted)

    def successor(self) -> Traffic:
        traffic = Traffic()
        traffic.load(self.rows.values())
        return traffic


def stored(traffic: Traffic) -> Traffic:
    traffic.written(traffic.unwritten())
    return traffic


def count(traffic: Traffic) -> int:
    """Return how many replies a scrape shows once all is stored."""
    return sum(reply.count for reply in stored(traffic).by_model()["m"].replies)


def test_a_sum_with_nothing_is_the_whole_of_it_and_with_itself_twice_as_much() -> None:
    (whole,) = whole_scrape().traffic
    assert {name for name in whole.__struct_fields__ if not getattr(whole, name)} == NOT_THERE
    assert added(whole, ModelTraffic(model=whole.model)) == whole
    twice = added(whole, whole)
    for counts in (twice.replies, twice.refusals, twice.errors, twice.choices, twice.fallbacks):
        assert all(one.count % 2 == 0 for one in counts)
    assert twice.errors[0].count == 2 * whole.errors[0].count


def test_workers_are_summed_and_the_newest_report_of_each_counts() -> None:
    traffic = Traffic()
    for one in (report("b1", 0, 3), report("b1", 0, 5, in_flight=2), report("b1", 1, 7)):
        traffic.take(one)
    total = stored(traffic).by_model()["m"]
    assert total.replies == (ReplyCount(code=200, count=12),)
    assert (total.completion_tokens, total.in_flight) == (120, 2)
    assert total.duration == Histogram(bounds=(1.0, 2.0), counts=(0, 12, 12), sum=18.0)


def test_a_new_boot_adds_to_what_the_old_one_counted_and_memory_does_not_grow() -> None:
    traffic = Traffic()
    for number in range(50):
        boot = f"b{number}"
        traffic.new_boot("g1", boot)
        traffic.take(report(boot, 0, 2, in_flight=1))
    assert count(traffic) == 100
    assert traffic.by_model()["m"].in_flight == 1
    assert len(traffic.reports()) == 1


def test_a_worker_that_counts_from_zero_again_takes_nothing_away() -> None:
    traffic = Traffic()
    traffic.take(report("b1", 0, 9))
    traffic.take(report("b1", 0, 1))
    assert count(traffic) == 10


def test_a_gateway_that_is_gone_has_nothing_in_flight_and_keeps_its_totals() -> None:
    traffic = Traffic()
    traffic.take(report("b1", 0, 4, in_flight=3))
    traffic.idle("g1")
    assert (count(traffic), traffic.by_model()["m"].in_flight) == (4, 0)
    traffic.take(report("b1", 0, 5, in_flight=1))
    assert (count(traffic), traffic.by_model()["m"].in_flight) == (5, 1)


def test_histograms_of_other_bounds_never_count_more_than_there_was() -> None:
    one = Histogram(bounds=(1.0, 4.0), counts=(2, 5, 6), sum=10.0)
    other = Histogram(bounds=(2.0, 4.0), counts=(1, 3, 3), sum=6.0)
    total = added(
        ModelTraffic(model="m", duration=one), ModelTraffic(model="m", duration=other)
    ).duration
    assert total == Histogram(bounds=(1.0, 2.0, 4.0), counts=(2, 3, 8, 9), sum=16.0)


def test_what_is_not_stored_is_not_shown() -> None:
    traffic = stored_with(report("b1", 0, 3, in_flight=1))
    traffic.take(report("b1", 0, 5, in_flight=4))
    shown = traffic.by_model()["m"]
    assert (shown.completion_tokens, shown.in_flight) == (30, 4)
    assert stored(traffic).by_model()["m"].completion_tokens == 50


def test_a_model_is_not_shown_as_nothing_before_its_first_count_is_stored() -> None:
    traffic = Traffic()
    traffic.take(report("b1", 0, 3))
    assert traffic.by_model() == {}


def stored_with(*reports: TrafficReport) -> Traffic:
    traffic = Traffic()
    for one in reports:
        traffic.take(one)
    return stored(traffic)


def test_only_gateways_with_news_are_written_again() -> None:
    traffic = stored_with(report("b1", 0, 3))
    assert traffic.unwritten() == ()
    traffic.new_boot("g1", "b2")
    (row,) = traffic.unwritten()
    assert (row.reports, row.finished[0].completion_tokens) == ((), 30)


def test_what_came_while_it_was_written_is_written_next_time() -> None:
    traffic = Traffic()
    traffic.take(report("b1", 0, 3))
    begun = traffic.unwritten()
    traffic.take(report("b1", 0, 4))
    traffic.written(begun)
    assert traffic.by_model()["m"].completion_tokens == 30
    assert [one.reports[0].models[0].completion_tokens for one in traffic.unwritten()] == [40]


def test_a_successor_shows_the_stored_total_before_any_gateway_reports() -> None:
    store = Stored()
    traffic = Traffic()
    traffic.take(report("b1", 0, 7, in_flight=2))
    store.take(traffic)
    traffic.take(report("b1", 0, 9))  # lost with the process that is killed now
    after = store.successor()
    assert (count(after), after.by_model()["m"].in_flight) == (7, 0)
    after.new_boot("g1", "b1")
    after.take(report("b1", 0, 9))
    assert count(after) == 9


def test_boots_that_ended_while_no_control_plane_listened_still_count() -> None:
    store = Stored()
    traffic = Traffic()
    traffic.take(report("b1", 0, 7))
    store.take(traffic)
    after = store.successor()
    after.new_boot("g1", "b2")
    after.take(report("b2", 0, 1))
    store.take(after)
    assert count(store.successor()) == 8
    assert len(store.rows["g1"].reports) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 2),
            st.integers(0, 20),
            st.sampled_from(["report", "boot", "write", "kill"]),
        ),
        max_size=60,
    )
)
def test_no_sum_that_was_shown_ever_falls(steps: list[tuple[str, int, int, str]]) -> None:
    """Gateways count, restart, and come back to control planes that are killed at any moment."""
    store, traffic = Stored(), Traffic()
    boots = {"a": 0, "b": 0}
    live: dict[tuple[str, int], int] = {}
    before = 0
    for gateway, worker, amount, what in steps:
        if what == "write":
            store.take(traffic)
        elif what == "kill":
            traffic = store.successor()
        elif what == "boot":
            boots[gateway] += 1
            live = {which: total for which, total in live.items() if which[0] != gateway}
        else:
            live[gateway, worker] = live.get((gateway, worker), 0) + amount
            boot = f"{boots[gateway]}"
            traffic.new_boot(gateway, boot)
            models = (ModelTraffic(model="m", prompt_tokens=live[gateway, worker]),)
            traffic.take(TrafficReport(gateway=gateway, boot=boot, worker=worker, models=models))
        shown = traffic.by_model().get("m")
        now = 0 if shown is None else shown.prompt_tokens
        assert now >= before
        before = now
