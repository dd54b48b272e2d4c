"""The leader lends: two gateways share one key's limits, whatever leaves and comes back."""

import pytest

from llmgw.control.quotas import AWAY, SETTLING, Quotas
from llmgw.model.keys import Key, QuotaFigures, QuotaGrant, QuotaReport, QuotaUse
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
