"""How many replicas are wanted: by load, within windows, to zero and back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import CatalogEntry, Model, Profile, Scaling
from llmgw.model.settings import Settings
from llmgw.plan.records import Demand, Desired, Observed
from llmgw.plan.scaling import at_request, on_demand, rests_after, scale, wants
from tests.unit.plan.one_model import KEY, One


def busy(**more: Any) -> One:
    one = One(replicas=1, max_replicas=4, scaling=Scaling(in_flight=4, **more))
    one.replicas = 1
    assert one.wanted() == 1
    return one


def test_a_profile_without_a_rule_is_left_as_the_catalog_says():
    assert One(replicas=2).wanted() == -1
    assert One(replicas=2, max_replicas=5).wanted() == -1


def test_more_is_wanted_only_when_more_was_needed_for_the_whole_window():
    one = busy(window=30)
    one.in_flight = 9
    assert [one.wanted(0), one.wanted(29), one.wanted(1)] == [1, 1, 3]
    assert one.state[KEY].words == "9 in flight, 4 a replica"


def test_the_time_for_which_no_more_was_needed_counts_against_it():
    one = busy(window=30)
    one.in_flight = 9
    assert [one.wanted(0), one.wanted(20)] == [1, 1]
    one.in_flight = 4
    assert [one.wanted(0), one.wanted(15)] == [1, 1]
    one.in_flight = 9
    assert [one.wanted(0), one.wanted(24), one.wanted(1)] == [1, 1, 3]
    one = busy(window=30)
    for in_flight in (9, 9, 4, 4, 4, 4, 9, 9, 9):
        one.in_flight = in_flight
        assert one.wanted(14) == 1, "what outweighs it ends it, and no more than that"
    assert one.wanted(2) == 3


def test_less_is_wanted_only_after_its_own_window_and_never_less_than_was_needed_in_it():
    one = busy(window=0, down_window=300)
    one.in_flight = 16
    assert one.settle() == 4
    one.in_flight = 1
    assert one.wanted(0) == 4
    one.in_flight = 9
    assert one.wanted(100) == 4
    one.in_flight = 0
    assert [one.wanted(100), one.wanted(99), one.wanted(1)] == [4, 4, 3]


def test_load_that_goes_up_and_down_again_and_again_changes_nothing():
    one = busy(window=30, down_window=30)
    seen = set()
    for number in range(100):
        one.in_flight = 12 if number % 2 else 0
        seen.add(one.wanted(10))
    assert seen == {1}


def test_no_more_than_the_most_and_no_less_than_the_least_is_wanted():
    one = One(replicas=2, max_replicas=3, scaling=Scaling(in_flight=1, window=0, down_window=0))
    one.replicas = 2
    one.in_flight = 100
    assert one.settle() == 3
    one.in_flight = 0
    assert one.settle() == 2


def test_what_waits_and_what_is_made_count_and_the_most_that_one_asks_for_is_wanted():
    rule = Scaling(queued=5, tokens_per_second=100.0, in_flight=50, window=0, down_window=0)
    one = One(replicas=1, max_replicas=9, scaling=rule)
    one.replicas = 2
    one.in_flight, one.waiting = 4, 11
    assert one.settle() == 3
    one.waiting, one.tokens = 0, 650.0
    assert one.settle() == 7
    assert one.state[KEY].words == "650 tokens/s, 100 a replica"


def test_nothing_is_taken_away_while_a_gateway_cannot_say():
    one = busy(window=0, down_window=0, idle_stop=60)
    one.in_flight = 12
    assert one.settle() == 3
    one.in_flight = None
    one.idle_for = 10_000.0
    assert one.wanted(10_000) == 3


def test_a_model_that_nothing_is_asked_of_is_stopped_and_started_by_a_request():
    one = One(replicas=2, scaling=Scaling(idle_stop=600))
    one.replicas = 2
    one.idle_for = 0.0
    assert one.wanted() == 2
    one.idle_for = 599.0
    assert one.wanted(599) == 2
    one.idle_for = 600.0
    assert one.settle(1) == 0
    assert one.state[KEY].words == "nothing was asked of it for 10m00s"
    assert one.wanted(10_000) == 0
    one.queued, one.idle_for = 1, 0.0
    assert one.wanted() == 2


def test_a_model_of_no_replicas_is_started_by_a_request_and_goes_when_it_is_done():
    one = One(replicas=0, max_replicas=1)
    assert one.wanted() == 0
    one.queued = 1
    assert one.settle() == 1
    one.queued, one.in_flight = 0, 1
    assert one.wanted(10_000) == 1
    one.in_flight = 0
    assert [one.wanted(0), one.wanted(299), one.wanted(1)] == [1, 1, 0]


def test_the_last_replica_goes_when_nothing_was_asked_for_as_long_as_the_catalog_says():
    for rule, after in (
        (None, 300),
        (Scaling(down_window=60), 60),
        (Scaling(in_flight=4), 300),
        (Scaling(idle_stop=3600), 3600),
        (Scaling(idle_stop=10), 10),
        (Scaling(idle_stop=3600, in_flight=4, queued=2, tokens_per_second=9, down_window=5), 3600),
    ):
        for least, most in ((0, 1), (0, 3), (1, 3)):
            if least and (rule is None or rule.idle_stop is None):
                continue  # it is never without one
            one = One(replicas=least, max_replicas=most, scaling=rule)
            assert rests_after(one.profile) == after
            one.queued = 1
            one.settle()
            assert one.settle() == 1
            one.queued, one.in_flight = 0, 1
            assert one.wanted(10_000) == 1
            one.in_flight = 0
            assert [one.wanted(after - 1), one.wanted(1)] == [1, 0], (rule, least, most)


def test_what_load_had_added_goes_before_the_last_and_the_last_waits_until_it_is_idle():
    rule = Scaling(in_flight=1, window=0, down_window=60, idle_stop=3600)
    one = One(replicas=0, max_replicas=3, scaling=rule)
    one.replicas, one.in_flight = 3, 3
    assert one.settle() == 3
    one.in_flight = 0
    assert [one.settle(0), one.settle(60), one.settle(3539), one.settle(1)] == [3, 1, 1, 0]


def test_what_a_request_started_begins_to_serve_though_nobody_waits_any_more():
    one = One(replicas=0, max_replicas=1, scaling=Scaling(idle_stop=60))
    one.queued, one.replica_state = 1, "starting"
    assert one.settle() == 1
    one.queued, one.idle_for = 0, 500.0
    assert one.wanted(500) == 1
    one.replica_state = "ready"
    assert [one.wanted(), one.wanted(59), one.wanted(1)] == [1, 1, 0]


def test_requests_that_no_pass_has_seen_keep_it_too():
    one = One(replicas=0, max_replicas=1, scaling=Scaling(idle_stop=60))
    one.replicas = 1
    for _ in range(20):
        one.idle_for = 5.0
        assert one.wanted(30) == 1
    one.idle_for = 60.0
    assert one.wanted(55) == 0


def test_what_ends_again_and_again_before_it_serves_is_let_rest():
    one = One(replicas=0, max_replicas=1, scaling=Scaling(idle_stop=60))
    one.queued = 1
    one.settle()
    one.queued, one.replica_state, one.replicas = 0, "starting", 1
    assert one.wanted(100) == 1
    one.replica_state = "failed"
    assert one.wanted() == 0


def test_a_profile_that_always_has_a_replica_never_rests():
    for profile in (
        Profile(engine="x", replicas=1, max_replicas=3, scaling=Scaling(in_flight=2)),
        Profile(engine="x", replicas=2),
        Profile(engine="x", replicas=0),
        Profile(engine="x", replicas=0, scaling=Scaling(idle_stop=9)),
    ):
        assert (rests_after(profile), at_request(profile)) == (None, 0)


def test_no_replica_is_added_for_what_waits_while_one_that_is_wanted_does_not_serve_yet():
    one = One(replicas=1, max_replicas=4, scaling=Scaling(queued=1, window=30))
    one.replicas, one.in_flight, one.waiting = 1, 9, 8
    assert [one.wanted(), one.wanted(30), one.wanted(30), one.wanted(600)] == [1, 2, 2, 2]
    one.replicas = 2
    assert [one.wanted(), one.wanted(30)] == [2, 3]


def test_fewer_are_wanted_only_when_each_would_have_less_work_than_was_too_much():
    one = One(replicas=1, max_replicas=4, scaling=Scaling(queued=1, window=0, down_window=60))
    one.replicas, one.in_flight, one.waiting = 1, 6, 2
    assert one.settle() == 2
    one.waiting = 0
    assert [one.settle(100) for _ in range(50)] == [2] * 50
    one.in_flight = 5
    assert [one.settle(0), one.settle(60)] == [2, 1]


def test_what_a_replica_takes_is_what_the_profile_says_until_it_was_too_much():
    rule = Scaling(queued=2, window=0, down_window=60)
    one = One(replicas=1, max_replicas=9, concurrency=4, scaling=rule)
    one.replicas, one.in_flight = 5, 12
    assert [one.settle(0), one.settle(60)] == [5, 2]
    one.waiting = 5
    assert one.settle() == 3
    one.waiting = 0
    assert [one.settle(100) for _ in range(50)] == [3] * 50


def test_one_replica_less_is_tried_at_a_time_where_nobody_says_what_one_takes():
    one = One(replicas=1, max_replicas=9, scaling=Scaling(queued=2, window=0, down_window=60))
    one.replicas, one.in_flight = 5, 12
    assert [one.settle(0), one.settle(60), one.settle(0), one.settle(60)] == [5, 4, 4, 3]
    one.waiting = 1
    assert [one.settle(0), one.settle(600)] == [3, 3]
    one.waiting, one.in_flight = 0, 0
    assert [one.settle(0), one.settle(60)] == [3, 1]


def test_a_new_leader_starts_with_what_runs():
    scaled = One(replicas=1, max_replicas=5, scaling=Scaling(in_flight=4))
    scaled.replicas, scaled.in_flight = 4, 16
    assert scaled.wanted() == 4
    rests = One(replicas=1, scaling=Scaling(idle_stop=600))
    assert rests.wanted() == 0


def test_a_model_that_was_just_written_is_started():
    one = One(changed=900.0, replicas=1, scaling=Scaling(idle_stop=600))
    assert one.wanted() == 1
    assert one.wanted(599) == 1
    assert one.wanted(1) == 0


def test_the_catalog_is_followed_at_once_where_it_asks_for_more():
    one = busy()
    one.profile = Profile(engine="simulated", replicas=3, max_replicas=4, scaling=Scaling())
    assert one.wanted() == 3
    one.profile = Profile(engine="simulated", replicas=0, max_replicas=0, scaling=Scaling())
    assert one.wanted() == 0


def test_only_what_may_be_without_replicas_is_started_by_a_request():
    assert on_demand(Profile(engine="x", replicas=0, max_replicas=1))
    assert on_demand(Profile(engine="x", replicas=1, scaling=Scaling(idle_stop=1)))
    assert not on_demand(Profile(engine="x", replicas=1, scaling=Scaling(in_flight=1)))
    assert not on_demand(Profile(engine="x", replicas=0))
    assert not on_demand(Profile(engine="x", replicas=0, scaling=Scaling(idle_stop=1)))


def test_a_request_starts_the_first_profile_that_may_have_replicas():
    profiles = (
        Profile(name="a", engine="x", replicas=0, max_replicas=0, scaling=Scaling()),
        Profile(name="b", engine="x", replicas=0, max_replicas=2),
        Profile(name="c", engine="x", replicas=0, max_replicas=2),
    )
    model = Model(name="qwen", profiles=profiles)
    entry = CatalogEntry(model=model, version=1, changed=0.0, changed_by="ana")
    observed = Observed(nodes=(), replicas=(), demands=(Demand(model="qwen", queued=3),))
    found = scale({}, Desired(models=(entry,), settings=Settings()), observed, 1.0, 1.0)
    found = scale(found, Desired(models=(entry,), settings=Settings()), observed, 1.0, 1.0)
    assert [(one.profile, one.replicas) for one in wants(found)] == [("a", 0), ("b", 1), ("c", 0)]


steps = st.lists(
    st.tuples(
        st.sampled_from((0.0, 1.0, 40.0, 700.0)),
        st.sampled_from((0, 0, 1, 5, 40, None)),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(steps, st.integers(0, 2), st.integers(0, 4), st.sampled_from((None, 60.0)))
def test_what_is_wanted_is_always_within_what_the_catalog_allows(
    told: list[tuple[float, int | None, int]], least: int, room: int, idle_stop: float | None
):
    rule = Scaling(in_flight=2, queued=1, idle_stop=idle_stop, window=5, down_window=5)
    one = One(replicas=least, max_replicas=least + room, scaling=rule)
    for seconds, in_flight, queued in told:
        one.in_flight, one.queued = in_flight, queued
        one.idle_for = 0.0 if in_flight or queued else one.now
        before = one.replicas
        wanted = one.settle(seconds)
        assert 0 <= wanted <= least + room
        assert wanted >= least or on_demand(one.profile)
        assert not (queued and room + least and wanted == 0 and on_demand(one.profile))
        assert not (in_flight is None and wanted < before)
