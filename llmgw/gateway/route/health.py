"""When an engine that could not be reached is tried again: a circuit breaker over time."""

FIRST = 0.5
MOST = 15.0


class Health:
    """One engine as one worker sees it.

    A failure takes it out for a while that doubles with each further one; then one request at a
    time is let through as a probe, until one works.
    """

    __slots__ = ("failures", "out_until", "probing", "words")

    def __init__(self) -> None:
        self.failures = 0
        self.out_until = 0.0
        self.probing = False
        self.words = ""
        """How it failed last."""

    def usable(self, now: float) -> bool:
        """Say whether a request may go there at `now` (monotonic seconds)."""
        return not self.failures or (now >= self.out_until and not self.probing)

    def chosen(self) -> bool:
        """Note that a request goes there; say whether it is the probe, having failures behind it.

        Whoever sends the probe calls `released` when it ended, however it did.
        """
        if self.failures:
            self.probing = True
            return True
        return False

    def worked(self) -> None:
        """Note that it answered."""
        self.failures = 0
        self.probing = False

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
        """Note that the probe ended, whatever it told."""
        self.probing = False
