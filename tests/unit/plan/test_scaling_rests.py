"""Scaling comes to rest: under a load that stays as it is, so does the number of replicas."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import CatalogEntry, Model, Profile, Scaling
from llmgw.model.replica import Replica
from llmgw.model.settings import Settings
from llmgw.plan.records import Demand, Desired, Load, Observed
from llmgw.plan.scaling import Key, Scale, scale

KEY = ("qwen", "default")
STEP = 5.0
"""Seconds between two passes."""
MOST = 6


@dataclass(frozen=True)
class Work:
    """What clients keep asking, and what engines make of it."""

    requests: int
    slots: int
    """Requests that one engine runs at once; what is more waits in it."""
    rate: float
    """Tokens a second of a request that runs."""
    shares: tuple[int, ...]
    """How requests spread over replicas: some get more than others, by their order."""
    loads_for: int
    """Passes until a replica that was started serves."""
    says_running: bool

    def spread(self, replicas: int) -> list[int]:
        """Return how many requests each replica has."""
        shares = self.shares[:replicas]
        each = [self.requests * share // sum(shares) for share in shares]
        each[0] += self.requests - sum(each)
        return each


class Engines:
    """Replicas that do what scaling wants, and have a constant load."""

    def __init__(self, profile: Profile, work: Work, there: int) -> None:
        self.profile, self.work = profile, work
        self.now = 1000.0
        self.state: dict[Key, Scale] = {}
        self.ages = [work.loads_for] * there
        """Of each replica, in passes."""

    def turn(self) -> int:
        """Let a pass go by; return how many are wanted."""
        model = Model(name="qwen", profiles=(self.profile,))
        entry = CatalogEntry(model=model, version=1, changed=0.0, changed_by="ana")
        desired = Desired(models=(entry,), settings=Settings())
        self.state = scale(self.state, desired, self.observed(), self.now, self.now)
        wanted = self.state[KEY].wanted
        self.ages = [age + 1 for age in self.ages[:wanted]]
        self.ages += [0] * (wanted - len(self.ages))
        self.now += STEP
        return wanted

    def observed(self) -> Observed:
        ready = [age >= self.work.loads_for for age in self.ages]
        serving = sum(ready)
        each = iter(self.work.spread(serving) if serving else ())
        has = [next(each) if one else 0 for one in ready]
        running = [min(count, self.work.slots) for count in has]
        queued = 0 if serving else self.work.requests
        return Observed(
            nodes=(),
            replicas=tuple(
                Replica(
                    id=f"r{number}",
                    model="qwen",
                    profile="default",
                    state="ready" if one else "starting",
                )
                for number, one in enumerate(ready)
            ),
            loads=tuple(
                Load(
                    replica=f"r{number}",
                    in_flight=has[number],
                    running=running[number] if self.work.says_running else None,
                    waiting=has[number] - running[number],
                )
                for number in range(len(ready))
            ),
            demands=(
                Demand(
                    model="qwen",
                    queued=queued,
                    tokens_per_second=sum(running) * self.work.rate,
                    idle_for=0.0 if self.work.requests else None,
                ),
            ),
        )


windows = st.sampled_from((None, 0.0, 5.0, 60.0))
rules = st.builds(
    Scaling,
    in_flight=st.sampled_from((None, None, 1, 3, 8)),
    queued=st.sampled_from((None, 1, 1, 2, 5)),
    tokens_per_second=st.sampled_from((None, None, 10.0, 100.0)),
    window=windows,
    down_window=windows,
    idle_stop=st.sampled_from((None, 30.0, 600.0)),
)
works = st.builds(
    Work,
    requests=st.integers(0, 40),
    slots=st.integers(1, 9),
    rate=st.sampled_from((0.0, 7.0, 30.0)),
    shares=st.lists(st.integers(1, 5), min_size=MOST, max_size=MOST).map(tuple),
    loads_for=st.integers(0, 9),
    says_running=st.booleans(),
)


def numbers(
    rule: Scaling, work: Work, least: int, concurrency: int | None, there: int
) -> list[int]:
    """Return how many are wanted, pass by pass, for as long as all changes could take."""
    profile = Profile(
        engine="simulated",
        replicas=least,
        max_replicas=MOST,
        concurrency=concurrency,
        scaling=rule,
    )
    engines = Engines(profile, work, there)
    longest = max(300.0, rule.idle_stop or 0.0) + 30.0 + STEP * (work.loads_for + 2)
    return [engines.turn() for _ in range(round(3 * MOST * longest / STEP))]


@given(rules, works, st.integers(0, 3), st.sampled_from((None, 1, 4, 9)), st.integers(0, MOST))
def test_a_constant_load_comes_to_a_constant_number_of_replicas(
    rule: Scaling, work: Work, least: int, concurrency: int | None, there: int
):
    wanted = numbers(rule, work, least, concurrency, there)
    last = wanted[2 * len(wanted) // 3 :]
    assert len(set(last)) == 1, wanted
    assert sum(a != b for a, b in pairwise(wanted)) <= 4 * MOST


@given(rules, works, st.integers(0, 3), st.integers(0, MOST))
def test_where_it_rests_not_too_many_wait_unless_there_are_no_more(
    rule: Scaling, work: Work, least: int, there: int
):
    wanted = numbers(rule, work, least, None, there)[-1]
    if rule.queued is None or wanted in {0, MOST}:
        return
    waiting = sum(max(0, has - work.slots) for has in work.spread(wanted))
    assert waiting <= rule.queued * wanted


def test_what_flapped_for_ever_rests_after_its_first_queue():
    even = (1,) * MOST
    work = Work(requests=6, slots=4, rate=0.0, shares=even, loads_for=1, says_running=True)
    wanted = numbers(Scaling(queued=1), work, 1, None, 1)
    assert (wanted[0], set(wanted[10:])) == (1, {2})


def test_more_tokens_of_fewer_replicas_to_which_requests_spread_badly_do_not_add_one_for_ever():
    badly = (1, 1, 10, 10, 10, 10)
    work = Work(requests=20, slots=9, rate=7.0, shares=badly, loads_for=1, says_running=True)
    wanted = numbers(Scaling(tokens_per_second=50.0), work, 1, None, 1)
    assert 3 <= sum(a != b for a, b in pairwise(wanted)) <= 4, "fewer are tried once"
    assert set(wanted[-len(wanted) // 2 :]) == {3}
