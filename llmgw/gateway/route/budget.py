"""How many requests may be sent a second time: some of all, so that a storm feeds no storm."""

SHARE = 0.2
"""Of the requests of a model so many may be sent again, on average …"""
RATE = 1.0
"""… and so many a second beside, for a model that is asked little."""
MOST = 20.0
"""That many at once."""


class RetryBudget:
    """One model's at one worker.

    When every replica fails, each request would otherwise be sent three times: most load when
    there is least to take it.
    """

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = MOST
        self._at = 0.0

    def asked(self) -> None:
        """Note a request: it pays for a share of one that is sent again."""
        self._left = min(MOST, self._left + SHARE)

    def left(self, now: float) -> bool:
        """Say whether a request may be sent again at `now` (monotonic seconds)."""
        if now > self._at:
            self._left = min(MOST, self._left + RATE * (now - self._at))
            self._at = now
        return self._left >= 1.0

    def spend(self, now: float) -> bool:
        """Send a request again, if it may be; say whether."""
        if not self.left(now):
            return False
        self._left -= 1.0
        return True
