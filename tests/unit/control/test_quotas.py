"""The leader lends: two gateways share one key's limits, whatever leaves and comes back."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.quotas import AWAY, SETTLING, Quotas, in_parts
from llmgw.gateway.mapped import KEYS
from llmgw.link.codec import encode
from llmgw.link.guard import MESSAGE_LIMIT
from llmgw.model.keys import Key, QuotaFigures, QuotaGrant, QuotaReport, QuotaSlice, QuotaUse
from llmgw.model.link import GatewayControl
from tests.fakes.quotas import Hand, Machine, key


class Cluster:
    """A leader and gateways; a round is a second."""

    def __init__(self, *keys: Key, gateways: int = 2) -> None:
        self.clock = Hand()
        self.leader = Quotas(self.clock)
        self.keys = {one.id: one for one in keys}
        self.gateways: dict[str, Machine] = {}
        self.connected: set[str] = set()
        for number in range(gateways):
            self.join(f"g{number}")
        self.rounds(int(SETTLING) + 2)

    def join(self, name: str, boot: str = "first") -> None:
        machine = self.gateways.get(name) or Machine(self.clock, name)
        self.gateways[name] = machine
        machine.keep(*self.keys.values())
        self.connect(name, boot)

    def connect(self, name: str, boot: str = "first") -> None:
        self.leader.connected(name, boot)
        self.gateways[name].quotas.stream_began()
        self.gateways[name].quotas.grant(QuotaGrant(gateways=0))
        self.connected.add(name)

    def part(self, name: str) -> None:
        self.leader.left(name)
        self.connected.discard(name)

    def rounds(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.pass_(1.0)
            for name, machine in self.gateways.items():
                machine.quotas.look()
                report = machine.quotas.report() if name in self.connected else None
                if report is not None:
                    self.leader.take(report)
            for name, grant in self.leader.grants(self.keys).items():
                self.gateways[name].quotas.grant(grant)

    def ask(self, name: str, times: int) -> int:
        """Ask so many times, refused ones told of; return how many were admitted."""
        admitted = self.gateways[name].ask(times)
        if admitted < times:
            self.gateways[name].refusal()
        return admitted


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(key(requests_per_minute=20))


def test_gateways_that_are_idle_have_equal_shares(cluster):
    assert [cluster.ask("g0", 20), cluster.ask("g1", 20)] == [10, 10]


def test_what_one_needs_and_the_other_does_not_is_lent_within_seconds(cluster):
    admitted = 0
    for _ in range(8):
        admitted += cluster.ask("g0", 20)
        cluster.rounds()
    assert 18 <= admitted <= 20


def test_in_no_minute_is_more_used_than_the_limit(cluster):
    admitted: list[tuple[float, int]] = []
    for second in range(200):
        name = "g0" if second // 30 % 2 else "g1"
        admitted.append((cluster.clock.monotonic(), cluster.ask(name, 3)))
        cluster.rounds()
        now = cluster.clock.monotonic()
        assert sum(count for at, count in admitted if at > now - 60) <= 20
    assert sum(count for _, count in admitted) >= 50  # and what is free is used


def test_a_gateway_that_is_away_goes_on_and_its_slice_is_lent_to_nobody_for_a_while(cluster):
    cluster.part("g1")
    cluster.rounds(5)
    assert cluster.ask("g1", 20) == 10
    assert cluster.ask("g0", 20) == 10
    cluster.rounds(3)
    assert cluster.ask("g0", 20) == 0
    cluster.rounds(int(AWAY) + 10)
    assert cluster.ask("g0", 20) >= 19


def test_a_gateway_that_starts_anew_with_nothing_holds_back_nothing_of_what_it_had(cluster):
    for _ in range(8):
        cluster.ask("g0", 4)
        cluster.rounds()
    assert cluster.gateways["g0"].quotas._held(cluster.keys["k"]).requests_per_minute > 15
    cluster.part("g0")
    cluster.rounds(2)
    del cluster.gateways["g0"]
    cluster.join("g0", boot="second")
    for _ in range(10):
        cluster.ask("g1", 30)
        cluster.rounds()
    assert cluster.gateways["g1"].quotas._held(cluster.keys["k"]).requests_per_minute > 10


def test_what_a_gateway_was_told_is_told_again_on_its_next_stream(cluster):
    cluster.ask("g0", 5)
    cluster.rounds(2)
    told = cluster.gateways["g0"].quotas._slices["k"]
    cluster.part("g0")
    cluster.gateways["g0"].quotas._slices.clear()  # it was on its way when the stream broke
    cluster.connect("g0")
    cluster.rounds(2)
    assert cluster.gateways["g0"].quotas._slices["k"] == told


def test_a_day_that_was_used_before_a_new_start_counts_until_that_says_what_it_knows():
    cluster = Cluster(key(tokens_per_day=100), gateways=1)
    used = QuotaUse(
        key="k", used=QuotaFigures(tokens_per_day=80), held=QuotaFigures(tokens_per_day=100)
    )
    cluster.leader.take(QuotaReport(gateway="g0", keys=(used,)))
    cluster.leader.connected("g0", "second")
    assert cluster.leader._limit(cluster.keys["k"], "tokens_per_day") == 20
    cluster.leader.take(QuotaReport(gateway="g0", keys=(used,)))
    assert cluster.leader._limit(cluster.keys["k"], "tokens_per_day") == 100


def test_a_new_leader_hears_what_gateways_hold_before_it_lends(cluster):
    for _ in range(6):
        cluster.ask("g0", 20)
        cluster.rounds()
    used = 20 - cluster.ask("g1", 20)
    cluster.leader = Quotas(cluster.clock)
    for name in ("g0", "g1"):
        cluster.connect(name)
    cluster.rounds(int(SETTLING) + 3)
    assert used > 15
    assert [cluster.ask("g0", 20), cluster.ask("g1", 20)] == [0, 0]


def test_a_gateway_that_joins_gets_its_share(cluster):
    cluster.join("g2")
    cluster.rounds(2)
    assert [cluster.ask(name, 20) for name in ("g0", "g1", "g2")] == [6, 6, 6]


def test_the_day_of_a_gateway_that_is_gone_counts_on():
    cluster = Cluster(key(tokens_per_day=1000))
    one = cluster.gateways["g1"]
    one.workers[0].admit(one.column(), 0).completion(400)
    cluster.rounds(3)
    cluster.part("g1")
    cluster.rounds(int(AWAY) + 5)
    other = cluster.gateways["g0"]
    other.workers[0].admit(other.column(), 0).completion(595)
    cluster.rounds(3)
    assert not other.workers[0].reached(other.column())
    other.workers[0].admit(other.column(), 0).completion(5)
    assert other.workers[0].reached(other.column())


def test_gateways_are_told_once_that_the_store_is_away_and_once_that_it_is_back(cluster):
    def told(*, away: bool) -> list[bool]:
        grants = cluster.leader.grants(cluster.keys, store_away=away)
        return [grant.store_away for grant in grants.values()]

    assert told(away=False) == []
    assert told(away=True) == [True, True]
    assert told(away=True) == []
    assert told(away=False) == [False, False]
    cluster.leader = Quotas(cluster.clock)  # a new leader has not settled, and says so too
    cluster.connect("g0")
    assert told(away=True) == [True]
    assert told(away=True) == []


def test_running_requests_are_shared_too():
    cluster = Cluster(key(concurrent=4))
    one = cluster.gateways["g0"]
    runs = []
    for _ in range(6):
        while not one.workers[0].reached(one.column()):
            runs.append(one.workers[0].admit(one.column(), 0))
        one.refusal()
        cluster.rounds()
    assert len(runs) == 4
    other = cluster.gateways["g1"]
    assert other.workers[0].reached(other.column())
    runs.pop().closed()
    other.refusal()
    cluster.rounds(4)
    assert not other.workers[0].reached(other.column())


def test_keys_over_quota_are_counted_for_a_minute(cluster):
    assert cluster.leader.over() == ()
    cluster.ask("g0", 20)
    cluster.rounds()
    assert cluster.leader.over() == ("k",)
    used = cluster.leader.used("k")
    assert used is not None
    assert used.requests_per_minute == 10
    cluster.rounds(70)
    assert cluster.leader.over() == ()


def test_what_is_idle_is_forgotten_and_a_key_that_is_removed_too(cluster):
    cluster.ask("g0", 20)
    cluster.rounds(80)
    assert cluster.leader.used("k") is None
    cluster.ask("g0", 3)
    cluster.rounds()
    cluster.keys.clear()
    cluster.rounds()
    assert cluster.leader.used("k") is None


def test_a_key_that_rests_has_used_nothing_where_everybody_could_say_so(cluster):
    resting = cluster.leader.used_of_late("k")
    assert resting == QuotaFigures(
        requests_per_minute=0, tokens_per_minute=0, tokens_per_day=0, concurrent=0
    )
    cluster.ask("g0", 3)
    cluster.rounds()
    assert cluster.leader.used_of_late("k") == cluster.leader.used("k") != resting
    cluster.rounds(80)
    cluster.leader.left("g1")
    assert cluster.leader.used_of_late("k") is None, "one of them is away"
    cluster.leader.forget()
    cluster.leader.connected("g0")
    assert cluster.leader.used_of_late("k") is None, "nobody had the time to speak"


def test_slices_of_all_keys_that_are_told_apart_go_in_messages_that_the_link_carries():
    figures = QuotaFigures(
        requests_per_minute=2**40, tokens_per_minute=2**40, tokens_per_day=2**40, concurrent=2**40
    )
    slices = tuple(
        QuotaSlice(key=f"{number:0100d}", slice=figures, more=True) for number in range(KEYS)
    )
    whole = QuotaGrant(gateways=3, slices=slices, store_away=True)
    parts = list(in_parts(whole))
    assert len(parts) > 1
    assert all(len(encode(GatewayControl(quotas=one))) < MESSAGE_LIMIT / 8 for one in parts)
    assert {(one.gateways, one.store_away) for one in parts} == {(3, True)}
    assert tuple(told for one in parts for told in one.slices) == slices
    empty = QuotaGrant(gateways=2)
    assert list(in_parts(empty)) == [empty]


class Thorough(Quotas):
    """A leader that looks at every key each time."""

    def grants(self, keys: Mapping[str, Key], *, store_away: bool = False) -> dict[str, QuotaGrant]:
        self._all_stirred = True
        return super().grants(keys, store_away=store_away)


NAMES, GATEWAYS = ("a", "b"), ("g0", "g1", "g2")
REPORTED = st.tuples(
    st.just("says"),
    st.sampled_from(GATEWAYS),
    st.sampled_from(NAMES),
    st.integers(0, 25),
    st.integers(0, 25),
    st.booleans(),
)
STEPS = st.one_of(
    REPORTED,
    REPORTED,
    st.tuples(st.just("passes"), st.sampled_from([1.0, 1.0, 5.0, AWAY, 90_000.0])),
    st.tuples(st.sampled_from(["joins", "starts", "leaves"]), st.sampled_from(GATEWAYS)),
    st.tuples(st.just("limit"), st.sampled_from(NAMES), st.integers(1, 40)),
    st.tuples(st.just("goes"), st.sampled_from(NAMES)),
)


class Both:
    """The same said to a leader and to one that looks at everything."""

    def __init__(self) -> None:
        self.clock = Hand()
        self.leaders = (Quotas(self.clock), Thorough(self.clock))
        self.keys = {name: key(name, requests_per_minute=20, tokens_per_day=40) for name in NAMES}
        self.boots = 0
        self.each(lambda leader: leader.connected("g0", "0"))
        self.clock.pass_(SETTLING + 1)

    def each(self, act: Callable[[Quotas], None]) -> None:
        for leader in self.leaders:
            act(leader)

    def step(self, what: str, *values: Any) -> None:
        getattr(self, what)(*values)
        for _ in range(2):
            self.clock.pass_(1.0)
            told, wanted = (leader.grants(self.keys) for leader in self.leaders)
            assert told == wanted

    def says(self, gateway: str, name: str, used: int, held: int, short: bool) -> None:
        use = QuotaUse(
            key=name,
            used=QuotaFigures(requests_per_minute=used, tokens_per_day=used),
            held=QuotaFigures(requests_per_minute=held, tokens_per_day=held),
            short=short,
        )
        self.each(lambda leader: leader.take(QuotaReport(gateway=gateway, keys=(use,))))

    def passes(self, seconds: float) -> None:
        self.clock.pass_(seconds)

    def leaves(self, gateway: str) -> None:
        self.each(lambda leader: leader.left(gateway))

    def joins(self, gateway: str) -> None:
        self.each(lambda leader: leader.connected(gateway, str(self.boots)))

    def starts(self, gateway: str) -> None:
        self.boots += 1
        self.joins(gateway)

    def limit(self, name: str, most: int) -> None:
        self.keys[name] = key(name, requests_per_minute=most, tokens_per_day=40)

    def goes(self, name: str) -> None:
        self.keys.pop(name, None)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_keys_that_rest_are_lent_as_if_they_were_looked_at(steps):
    both = Both()
    for what, *values in steps:
        both.step(what, *values)


def test_the_day_of_a_gateway_that_is_gone_ends_for_a_key_that_rests_too():
    both = Both()
    both.step("joins", "g1")
    both.step("says", "g0", "a", 5, 20, False)
    both.step("says", "g1", "a", 30, 20, False)
    both.step("leaves", "g1")
    both.step("passes", AWAY)
    both.step("passes", 60.0)
    both.passes(86_400.0)
    told = both.leaders[0].grants(both.keys)
    assert [one.slice.tokens_per_day for one in told["g0"].slices if one.slice] == [40]
