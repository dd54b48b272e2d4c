"""Sliding windows: what was used within one is never forgotten, nor kept for long."""

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.admission.window import (
    DAY,
    MINUTE,
    Window,
    advance,
    fill,
    floor,
    free_in,
    resume,
    since_begins,
)

SMALL = Window(slots=5, seconds=1.0)
STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 3.0, allow_nan=False),  # seconds that pass
        st.integers(0, 4),  # what is used then
        st.booleans(),  # whether the parent looks
    ),
    max_size=60,
)


class Watched:
    """A ring that is charged and looked at, and what was charged when."""

    def __init__(self, window: Window, now: float = 100.0) -> None:
        self.window = window
        self.now = now
        self.newest = window.slot(now)
        self.ring = [0] * window.cells
        self.total = self.before = 0
        self.looked = now
        self.longest = 0.0
        self.charges: list[tuple[float, int]] = []
        fill(window, self.ring, 0)

    def use(self, amount: int) -> None:
        self.total += amount
        self.charges.append((self.now, amount))

    def look(self) -> None:
        slot = self.window.slot(self.now)
        if slot > self.newest:
            advance(self.window, self.ring, self.newest, slot, self.before)
            self.newest = slot
        self.before = self.total
        self.longest = max(self.longest, self.now - self.looked)
        self.looked = self.now

    @property
    def used(self) -> int:
        return self.total - floor(self.window, self.ring, self.newest)

    def within(self, seconds: float) -> int:
        return sum(amount for at, amount in self.charges if at > self.now - seconds)


@given(STEPS)
def test_what_was_used_within_the_window_is_never_forgotten_nor_kept_for_long(steps):
    watched = Watched(SMALL)
    length = SMALL.slots * SMALL.seconds
    for seconds, amount, looks in steps:
        watched.now += seconds
        if looks:
            watched.look()
        watched.use(amount)
        assert watched.used >= watched.within(length)
    watched.look()
    pause = max(watched.longest, 0.0)
    assert watched.used <= watched.within(length + SMALL.seconds + pause + 1e-6)


@given(STEPS, st.integers(1, 8))
def test_a_limit_is_never_passed_in_any_window_of_its_length(steps, limit):
    """Whoever is refused at the limit never has more than it within any window."""
    watched = Watched(SMALL)
    for seconds, amount, looks in steps:
        watched.now += seconds
        if looks:
            watched.look()
        for _ in range(amount):
            if watched.used < limit:
                watched.use(1)
        assert watched.within(SMALL.slots * SMALL.seconds) <= limit


@given(STEPS, st.integers(1, 8))
def test_it_is_free_again_when_it_was_said_to_be(steps, limit):
    watched = Watched(SMALL)
    for seconds, amount, looks in steps:
        watched.now += seconds
        if looks:
            watched.look()
        watched.use(amount)
    wait = free_in(
        SMALL,
        watched.ring,
        watched.newest,
        total=watched.total,
        limit=limit,
        now=watched.now,
        pause=0.5,
    )
    end = watched.now + wait
    while watched.now + 0.5 <= end + 1e-6:  # the parent looks once in each pause
        watched.now += 0.5
        watched.look()
    assert watched.used < limit


def test_a_burst_is_free_again_after_a_minute_and_not_before():
    watched = Watched(MINUTE)
    watched.use(10)
    args = (MINUTE, watched.ring, watched.newest)
    wait = free_in(*args, total=10, limit=10, now=watched.now, pause=0.5)
    assert 60.0 <= wait <= 61.5
    assert free_in(*args, total=10, limit=11, now=watched.now, pause=0.5) <= 1.5


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9)), max_size=20), st.integers(0, 9))
def test_a_day_goes_on_after_a_restart(steps, down):
    watched = Watched(DAY, now=1e6)
    for seconds, amount in steps:
        watched.now += seconds
        watched.look()
        watched.use(amount)
    watched.look()
    kept = since_begins(DAY, watched.ring, watched.newest, watched.total)
    seconds_down = down * 700.0
    ring = [0] * DAY.cells
    newest = 7
    resume(DAY, ring, newest, kept, int(seconds_down // DAY.seconds))
    watched.now += seconds_down
    watched.look()
    after = 0 - floor(DAY, ring, newest)
    assert after >= watched.used
    assert after <= sum(
        amount for at, amount in watched.charges if at > watched.now - 86400.0 - 3 * DAY.seconds
    )
