"""Traffic: sums over workers and boots that never fall."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.control.traffic import Traffic, added
from llmgw.model.gateway import Histogram, ModelTraffic, ReplyCount, TrafficReport


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


def count(traffic: Traffic) -> int:
    return sum(reply.count for reply in traffic.by_model()["m"].replies)


def test_workers_are_summed_and_the_newest_report_of_each_counts() -> None:
    traffic = Traffic()
    for one in (report("b1", 0, 3), report("b1", 0, 5, in_flight=2), report("b1", 1, 7)):
        traffic.take(one)
    total = traffic.by_model()["m"]
    assert total.replies == (ReplyCount(code=200, count=12),)
    assert (total.completion_tokens, total.in_flight) == (120, 2)
    assert total.duration == Histogram(bounds=(1.0, 2.0), counts=(0, 12, 12), sum=18.0)
    assert traffic.by_gateway() == {("g1", "m"): total}


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


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 20), st.booleans()),
        max_size=60,
    )
)
def test_no_sum_ever_falls(steps: list[tuple[str, int, int, bool]]) -> None:
    traffic = Traffic()
    boots = {"a": 0, "b": 0}
    before = 0
    for gateway, worker, amount, restarts in steps:
        if restarts:
            boots[gateway] += 1
            traffic.new_boot(gateway, f"{boots[gateway]}")
        models = (ModelTraffic(model="m", prompt_tokens=amount),)
        boot = f"{boots[gateway]}"
        traffic.take(TrafficReport(gateway=gateway, boot=boot, worker=worker, models=models))
        now = traffic.by_model()["m"].prompt_tokens
        assert now >= before
        before = now
