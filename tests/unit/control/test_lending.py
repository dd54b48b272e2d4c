"""Slices of a limit: never more than it together, and soon with whoever needs them."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from llmgw.control.lending import Standing, lend

STANDINGS = st.lists(
    st.builds(
        Standing,
        told=st.integers(0, 100),
        held=st.integers(0, 100),
        used=st.integers(0, 100),
        short=st.booleans(),
        away=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@given(st.integers(0, 300), STANDINGS)
def test_what_is_lent_and_outstanding_never_passes_the_limit(limit, standings):
    slices = lend(limit, standings)
    before = sum(one.outstanding for one in standings)
    after = sum(
        max(slice_, one.held, one.used) for slice_, one in zip(slices, standings, strict=True)
    )
    assert after <= max(limit, before)
    assert all(slice_ >= 0 for slice_ in slices)


@given(st.integers(0, 300), STANDINGS)
def test_slices_that_everybody_keeps_to_are_within_the_limit(limit, standings):
    settled = [
        Standing(told=min(one.told, limit // len(standings)), held=0, used=0) for one in standings
    ]
    assert sum(lend(limit, settled)) <= limit


class Gateways:
    """Gateways that use what they may, each in one window that does not slide."""

    def __init__(self, limit: int, count: int) -> None:
        self.limit = limit
        self.slices = [limit // count] * count
        self.used = [0] * count
        self.short = [False] * count

    def round(self) -> None:
        standings = [
            Standing(told=slice_, held=slice_, used=used, short=short)
            for slice_, used, short in zip(self.slices, self.used, self.short, strict=True)
        ]
        self.slices = lend(self.limit, standings)

    def ask(self, which: int, times: int) -> None:
        for _ in range(times):
            may = self.used[which] < self.slices[which]
            self.used[which] += may
            self.short[which] = not may


def test_one_that_is_asked_alone_comes_to_have_nearly_all_within_some_rounds():
    gateways = Gateways(100, 4)
    for _ in range(12):
        gateways.ask(2, 100)
        gateways.round()
    assert gateways.used[2] >= 96
    assert sum(gateways.slices) <= 100


def test_those_that_are_asked_the_same_use_the_same():
    gateways = Gateways(90, 3)
    for _ in range(10):
        for which in range(3):
            gateways.ask(which, 7)
        gateways.round()
    assert gateways.used == [30, 30, 30]


def test_of_a_limit_of_one_somebody_has_it():
    gateways = Gateways(1, 3)
    gateways.ask(2, 1)
    gateways.round()
    gateways.ask(2, 1)
    assert gateways.used == [0, 0, 1]


def test_what_a_gateway_that_is_away_holds_is_lent_to_nobody():
    away = Standing(told=40, held=40, used=10, away=True)
    here = Standing(told=60, held=60, used=60, short=True)
    assert lend(100, [away, here]) == [40, 60]


class Lending(RuleBasedStateMachine):
    """Rounds, uses and words that come late in any order: never more than the limit is used."""

    LIMIT = 20

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        self.told = [self.LIMIT // count] * count
        self.held = list(self.told)
        self.used = [0] * count
        self.said = list(zip(self.held, self.used, strict=True))

    @rule(which=st.integers(0, 3), times=st.integers(1, 9))
    def use(self, which: int, times: int) -> None:
        which %= len(self.held)
        for _ in range(times):
            self.used[which] += self.used[which] < self.held[which]

    @rule(which=st.integers(0, 3))
    def slide(self, which: int) -> None:
        which %= len(self.held)
        self.used[which] = 0
        self.total = 0

    @rule(which=st.integers(0, 3))
    def hear(self, which: int) -> None:
        which %= len(self.held)
        self.held[which] = self.told[which]

    @rule(which=st.integers(0, 3))
    def say(self, which: int) -> None:
        which %= len(self.held)
        self.said[which] = (self.held[which], self.used[which])

    @rule(short=st.integers(0, 15))
    def round(self, short: int) -> None:
        standings = [
            Standing(told=told, held=held, used=used, short=bool(short >> at & 1))
            for at, (told, (held, used)) in enumerate(zip(self.told, self.said, strict=True))
        ]
        self.told = lend(self.LIMIT, standings)

    @invariant()
    def never_more_than_the_limit(self) -> None:
        # One that has not heard yet may use its old slice up: that much is the known error.
        late = sum(
            max(0, held - said_held)
            for held, (said_held, _) in zip(self.held, self.said, strict=True)
        )
        assert sum(self.used) <= self.LIMIT + late


TestLending = Lending.TestCase
