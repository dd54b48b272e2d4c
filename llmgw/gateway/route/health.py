"""When an engine that could not be reached is tried again: a circuit breaker over time."""

FIRST = 0.5
MOST = 15.0
PROBE = 2.0
"""Seconds for which a probe is the only one: a reply that is not streamed may take minutes."""


class Health:
    """One engine as one worker sees it.

    A failure takes it out for a while that doubles with each further one; then one request is let
    through as a probe, and others where it has told nothing for `PROBE` seconds.
    """

    __slots__ = ("failures", "out_until", "probed_until", "words")

    def __init__(self) -> None:
        self.failures = 0
        self.out_until = 0.0
        self.probed_until = 0.0
        """Until when the probe on its way is to be the only one."""
        self.words = ""
        """How it failed last."""

    def usable(self, now: float) -> bool:
        """Say whether a request may go there at `now` (monotonic seconds)."""
        return not self.failures or (now >= self.out_until and now >= self.probed_until)

    def is_back(self, now: float) -> bool:
        """Say whether it may be tried again, be it that a probe is on its way."""
        return not self.failures or now >= self.out_until

    def chosen(self, now: float) -> bool:
        """Note that a request goes there; say whether it is a probe, having failures behind it.

        Whoever sends a probe calls `released` when it ended, however it did.
        """
        if self.failures:
            self.probed_until = now + PROBE
            return True
        return False

    def worked(self) -> None:
        """Note that it answered."""
        self.failures = 0
        self.probed_until = 0.0

    def failed(self, now: float, jitter: float, words: str) -> None:
        """Note that it did not answer.

        Requests that fail together fail of one cause: only the first of them counts.

        Args:
            now: monotonic seconds.
            jitter: between 0 and 1, so that workers do not probe in step.
            words: how it failed.
        """
        if self.failures and now < self.out_until:
            return
        wait = min(MOST, FIRST * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.words = words
        self.out_until = now + wait * (0.5 + 0.5 * jitter)

    def released(self) -> None:
        """Note that a probe ended, whatever it told."""
        self.probed_until = 0.0
