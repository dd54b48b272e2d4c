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

    def chosen(self) -> None:
        """Note that a request goes there; with failures behind it, that request is the probe."""
        if self.failures:
            self.probing = True

    def worked(self) -> None:
        """Note that it answered."""
        self.failures = 0
        self.probing = False

    def failed(self, now: float, jitter: float, words: str) -> None:
        """Note that it did not answer.

        Args:
            now: monotonic seconds.
            jitter: between 0 and 1, so that workers do not probe in step.
            words: how it failed.
        """
        wait = min(MOST, FIRST * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.probing = False
        self.words = words
        self.out_until = now + wait * (0.5 + 0.5 * jitter)

    def released(self) -> None:
        """Note that a request ended without telling whether the engine is well."""
        self.probing = False
